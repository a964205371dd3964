//! The conformance suite on the reference backend.
use esker_backend::Pool;
use esker_backend::memory::Memory;
use std::sync::Arc;

fn pools(targets: u32) -> impl Fn() -> Arc<dyn Pool> {
    move || Arc::new(Memory::new(targets))
}

esker_conformance::suite!(memory, pools(4));
esker_conformance::suite!(memory_of_one_target, pools(1));
