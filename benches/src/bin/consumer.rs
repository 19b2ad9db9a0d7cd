//! A measured consumer: see `ruststream_benches::consumer`.

fn main() -> Result<(), ruststream::BoxError> {
    ruststream_benches::consumer::main()
}
