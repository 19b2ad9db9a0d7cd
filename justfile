# Recipes for people; `.ci/run` calls the same ones.
set shell := ["bash", "-euo", "pipefail", "-c"]

# The list of recipes.
default:
    @just --list

# Tools that the recipes need and that cargo does not bring (Debian; needs root for the packages).
setup:
    tools/setup

# Formatting, lints, documentation.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# Everything that needs no broker.
test:
    cargo test

# The settlement core against its model, with many more cases than `test` runs.
test-model cases="100000":
    PROPTEST_CASES={{cases}} cargo test --release -p ruststream --lib settlement

# Models of the lock-free protocols, by loom. Its own target folder: the flag would make cargo build everything anew.
test-loom:
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --release -p ruststream-loom

# A real Kafka on loopback: `just kafka up [--nodes 3]`, `just kafka down`, `just kafka status`.
kafka *args:
    cargo run -q -p ruststream-kafka-cluster --bin kafka -- {{args}}

# The live tests: they start the Kafka nodes that they need.
test-kafka:
    cargo test -p ruststream-kafka-cluster -- --ignored
    cargo test -p ruststream-rdkafka --test live -- --ignored --test-threads=2
    cargo test -p orders -- --ignored
    cargo test -p orders-http -- --ignored

# The main job on the embedded broker.
orders *args:
    cargo run -p orders -- {{args}}

# Instructions, allocations and throughput of a service on a real broker, and latency of its replies, beside raw client loops.
bench-consume *args:
    cargo bench -p ruststream-benches --bench consume -- {{args}}

# Instructions, allocations, throughput and latency of a publisher on a real broker, beside rdkafka's `FutureProducer`.
bench-publish *args:
    cargo bench -p ruststream-benches --bench publish -- {{args}}
