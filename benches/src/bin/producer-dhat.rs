//! A measured producer that counts its heap blocks: see `ruststream_benches::producer`.

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() -> Result<(), ruststream::BoxError> {
    let _profiler = dhat::Profiler::builder().testing().build();
    let _ = ruststream_benches::meter::BLOCKS.set(|| dhat::HeapStats::get().total_blocks);
    ruststream_benches::producer::main()
}
