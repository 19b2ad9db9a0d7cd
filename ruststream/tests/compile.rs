//! What `#[subscriber]` accepts, and what it says to those who get it wrong.

use std::fs;

/// A longer message is not read.
const MAX_LINES: usize = 25;

#[test]
fn accepted_functions_compile_and_refused_ones_say_why() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn every_error_is_short_enough_to_be_read() {
    for entry in fs::read_dir("tests/ui/fail").unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|extension| extension == "stderr") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(
                lines <= MAX_LINES,
                "{name} has {lines} lines: make the error shorter"
            );
        }
    }
}
