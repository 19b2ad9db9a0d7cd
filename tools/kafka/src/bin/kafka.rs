//! `kafka up | status | env | down`: a real Kafka on loopback that stays up between commands.
//!
//! Standard output is for shells (`eval "$(kafka up)"`); what people read goes to standard error.

#![allow(clippy::print_stdout, reason = "printing is what a command is for")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ruststream_kafka_cluster::Error;
use ruststream_kafka_cluster::standing::{self, Up};

/// Runs a real Kafka on this machine.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a cluster and leaves it running; prints what to export.
    Up {
        /// How many nodes.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
        nodes: u8,
    },
    /// Tells which nodes run.
    Status,
    /// Prints what to export for the cluster that is up.
    Env,
    /// Ends the cluster and removes its data.
    Down,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Up { nodes } => up(nodes.into()),
        Command::Status => status(),
        Command::Env => env(),
        Command::Down => down(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn up(nodes: usize) -> Result<(), Error> {
    let up = standing::up(nodes)?;
    match &up {
        Up::Already(_) => eprintln!("Kafka is up already"),
        Up::External(_) => eprintln!("KAFKA_BOOTSTRAP_SERVERS is set: using that Kafka, nothing was started"),
        _ => eprintln!("Kafka is up; `kafka down` ends it"),
    }
    export(up.bootstrap());
    Ok(())
}

fn status() -> Result<(), Error> {
    if let Some(servers) = standing::external() {
        println!("KAFKA_BOOTSTRAP_SERVERS is set to {servers}");
    }
    let Some(standing) = standing::status()? else {
        println!("no cluster is up");
        return Ok(());
    };
    println!("cluster at {}", standing.bootstrap());
    for node in standing.nodes()? {
        let state = if node.alive { "running" } else { "gone" };
        println!(
            "  node {}  port {}  pid {}  {state}",
            node.id, node.port, node.pid
        );
    }
    Ok(())
}

fn env() -> Result<(), Error> {
    export(&standing::bootstrap()?);
    Ok(())
}

fn down() -> Result<(), Error> {
    match standing::down()? {
        0 => eprintln!("no node was running"),
        1 => eprintln!("1 node ended"),
        nodes => eprintln!("{nodes} nodes ended"),
    }
    Ok(())
}

fn export(servers: &str) {
    println!("export KAFKA_BOOTSTRAP_SERVERS={servers}");
}
