//! The table of guarantees names tests that exist.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

/// All Rust sources below `folder`, put together.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let guarantees = fs::read_to_string(root.join("docs/guide/guarantees.md")).unwrap();
    let mut text = String::new();
    for folder in [
        "ruststream/src",
        "ruststream/tests",
        "ruststream-rdkafka/src",
        "ruststream-rdkafka/tests",
    ] {
        sources(&root.join(folder), &mut text);
    }
    let rows = guarantees.lines().filter(|line| line.starts_with('|'));
    let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    // Longer than any word of code that a promise mentions.
    let named: Vec<_> = names.filter(|name| name.len() > 20).collect();
    assert!(named.len() > 50, "{} tests are named", named.len());
    for name in named {
        assert!(text.contains(&format!("fn {name}(")), "there is no test {name}");
    }
}
