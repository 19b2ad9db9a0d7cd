//! A measured producer: see `ruststream_benches::producer`.

fn main() -> Result<(), ruststream::BoxError> {
    ruststream_benches::producer::main()
}
