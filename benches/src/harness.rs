//! What the harnesses share: starting measured programs, costs and their limits, the end.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use ruststream::BoxError;
use serde::de::DeserializeOwned;

use crate::callgrind::Instructions;

/// Runs a measured program to its end; what its line says.
///
/// # Errors
///
/// It failed, or printed something else.
pub fn run<T: DeserializeOwned>(program: &Path, args: &[String]) -> Result<T, BoxError> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "{} {} failed: {}",
            program.display(),
            args.join(" "),
            output.status
        )
        .into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What one message costs.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Instructions on the main thread.
    pub main: f64,
    /// Instructions on helper threads.
    pub helpers: f64,
    /// Instructions on librdkafka's threads.
    pub librdkafka: f64,
    /// Heap blocks of Rust code.
    pub blocks: f64,
}

/// What one message may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Instructions on threads that run our code.
    pub instructions: f64,
    /// Heap blocks: the user's own, and nothing else.
    pub blocks: f64,
}

impl Limits {
    /// Anything: what stands beside for comparison.
    pub const NONE: Self = Self::new(f64::INFINITY, f64::INFINITY);

    /// So many instructions and heap blocks.
    pub const fn new(instructions: f64, blocks: f64) -> Self {
        Self { instructions, blocks }
    }

    /// Whether nothing can be past them.
    pub fn is_none(&self) -> bool {
        self.instructions.is_infinite() && self.blocks.is_infinite()
    }
}

/// Growth of a vector here and there: an allocation a message would be 1.
const BLOCKS_SLACK: f64 = 0.005;

impl Cost {
    /// From a run and one that had `messages` more, and the heap blocks of a message.
    pub fn new(less: Instructions, more: Instructions, messages: u64, blocks: f64) -> Self {
        let each = |less: u64, more: u64| more.saturating_sub(less) as f64 / messages as f64;
        Self {
            main: each(less.main, more.main),
            helpers: each(less.helpers, more.helpers),
            librdkafka: each(less.librdkafka, more.librdkafka),
            blocks,
        }
    }

    /// Instructions on threads that run our code.
    pub fn ours(&self) -> f64 {
        self.main + self.helpers
    }

    /// What is past its limit, in words.
    pub fn past(&self, name: &str, limits: Limits) -> Vec<String> {
        let (instructions, blocks) = (self.ours(), self.blocks);
        let mut past = Vec::new();
        if instructions > limits.instructions {
            let limit = limits.instructions;
            past.push(format!(
                "{name}: {instructions:.0} instructions, the limit is {limit}"
            ));
        }
        if blocks > limits.blocks + BLOCKS_SLACK {
            let limit = limits.blocks;
            past.push(format!("{name}: {blocks:.3} heap blocks, the limit is {limit}"));
        }
        past
    }
}

/// Fails with what was missed, if anything was.
///
/// # Errors
///
/// Something was.
pub fn verdict(missed: &[String]) -> Result<(), BoxError> {
    if missed.is_empty() {
        Ok(())
    } else {
        Err(missed.join("\n").into())
    }
}

/// The end of a harness: a failure in words, on standard error.
pub fn exit(result: Result<(), BoxError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_past_its_limit_is_named() {
        let less = Instructions {
            main: 1_000,
            helpers: 10,
            librdkafka: 7,
        };
        let more = Instructions {
            main: 2_000,
            helpers: 20,
            librdkafka: 7,
        };
        let cost = Cost::new(less, more, 10, 2.004);
        assert!((cost.ours() - 101.0).abs() < f64::EPSILON);
        assert!(cost.past("a", Limits::new(101.0, 2.0)).is_empty());
        assert!(cost.past("a", Limits::NONE).is_empty());
        assert_eq!(
            cost.past("a", Limits::new(100.0, 1.0)),
            [
                "a: 101 instructions, the limit is 100",
                "a: 2.004 heap blocks, the limit is 1"
            ]
        );
    }
}
