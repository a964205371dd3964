//! The calls of `esker.h`. Handles are only closed with invalid arguments.
use super::arguments::Fuzz;
use super::setting;
use crate::common::*;
use crate::stores::{Fields, Tensors, ok};
use daos::abi::*;
use daos::stores::Pair;
use daos::stores::fields::*;
use daos::stores::tensors::*;

impl Fuzz {
    fn word(&mut self) -> Str {
        let words = [c"run", c"type", c"step", c"a", c"fc", c"0", c"0/to/2", c"t", c"<u2", c"\xff"];
        if self.random.below(30) == 0 { Ptr::null() } else { text(self.random.one_of(&words)) }
    }

    /// No flag, one or all of them.
    fn bits(&mut self) -> u32 {
        self.random.one_of(&[0, 0, 0, 1, 2, 4, 8, 16, 32, 63, u32::MAX])
    }

    fn pairs(&mut self) -> Ptr<Pair> {
        let many: Vec<_> = (0..9).map(|_| Pair { name: self.word(), value: self.word() }).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn lengths(&mut self) -> Ptr<u64> {
        let many: Vec<_> = (0..9).map(|_| self.random.number()).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn slabs(&mut self) -> Ptr<SlabArgument> {
        let mut number = || self.random.number();
        let slab = |_| SlabArgument { start: number(), step: number(), count: number() };
        let many: Vec<_> = (0..9).map(slab).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn attrs(&mut self) -> Ptr<Attr> {
        let mut attr = |_| {
            let (name, value) = (self.word(), self.ptr());
            let kind = (self.n32() % 8) | self.random.one_of(&[0, 0, 256]);
            let size = self.random.one_of(&[0, 1, 8, 8, 40]);
            Attr { name, value, size, kind, padding: 0 }
        };
        let many: Vec<_> = (0..9).map(&mut attr).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }
}

throw! { fuzz;
    esker_field_store_open(handle, word, bits, ptr, ev);
    esker_field_store_close(wild, bits, ev);
    esker_field_schema(handle, ptr, sizes);
    esker_field_archive(handle, pairs, small, ptr, len, ev);
    esker_field_pending(handle, ptr, ptr);
    esker_field_flush(handle, ev);
    esker_field_retrieve(handle, pairs, small, ptr, sizes, ev);
    esker_field_select(handle, pairs, small, ptr, ptr, ev);
    esker_field_list(handle, pairs, small, ptr, ptr, ev);
    esker_field_entry(handle, n64, ptr, len, ptr);
    esker_field_read(handle, n64, n64, ptr, sizes, ev);
    esker_field_read_at(handle, n64, n64, ptr, len, ev);
    esker_field_location(handle, n64, ptr, ptr, len, ptr);
    esker_field_select_close(wild, ev);
    esker_field_adopt(handle, pairs, small, word, n64, n64, ev);
    esker_field_axes(handle, pairs, small, bits, ptr, ptr, ev);
    esker_field_axis(handle, small, ptr, len, ptr);
    esker_field_axis_value(handle, small, n64, ptr, len);
    esker_field_axes_close(wild, ev);
    esker_field_watch(handle, pairs, small, bits, ptr, ev);
    esker_field_watch_next(handle, zero, ptr, ptr);
    esker_field_watch_close(wild, ev);
    esker_field_view(handle, n64, bits, ptr, ptr, ptr, ev);
    esker_field_view_close(wild, ev);
    esker_field_wipe(handle, pairs, small, bits, ptr, ev);
    esker_field_purge(handle, pairs, small, bits, ptr, ev);
    esker_tensor_store_open(handle, bits, ptr, ev);
    esker_tensor_store_at(handle, n64, ptr, ev);
    esker_tensor_store_close(wild, ev);
    esker_tensor_collect(handle, n64, bits, ptr, ev);
    esker_tensor_begin(handle, word, small, lengths, lengths, attrs, small, ptr, ev);
    esker_tensor_token(handle, ptr);
    esker_tensor_join(handle, word, ptr, ev);
    esker_tensor_put_query(handle, ptr);
    esker_tensor_write(handle, small, lengths, lengths, ptr, len, ev);
    esker_tensor_commit(handle, word, ptr, ev);
    esker_tensor_abort(handle, ev);
    esker_tensor_put_close(wild, ev);
    esker_tensor_put(handle, word, small, lengths, ptr, len, word, ptr, ev);
    esker_tensor_open(handle, word, ptr, ev);
    esker_tensor_close(wild, ev);
    esker_tensor_query(handle, ptr);
    esker_tensor_get(handle, slabs, small, ptr, sizes, ev);
    esker_tensor_attribute(handle, word, ptr, ptr, sizes);
    esker_tensor_attribute_name(handle, small, ptr, len);
    esker_tensor_list(handle, ptr, ptr, ev);
    esker_tensor_entry(handle, n64, ptr);
    esker_tensor_list_close(wild, ev);
    esker_tensor_remove(handle, word, ev);
    esker_tensor_rename(handle, word, word, ev);
}

#[test]
fn no_argument_crashes_the_stores() {
    let seed = esker_testing::seed();
    let rounds = setting("ESKER_FUZZ_ROUNDS", 20_000);
    let (fields, tensors) = (Fields::new(), Tensors::new());
    fields.fill();
    ok(tensors.put(c"t"));
    let (put, (rc, tensor)) = (tensors.begin(), tensors.open(c"t"));
    ok(rc);
    let (mut sel, mut listed, mut axes, mut watch) = (NONE, NONE, NONE, NONE);
    let none = Ptr::null();
    ok(esker_field_list(fields.fsh, Ptr::null(), 0, at(&mut sel), none, WAIT));
    ok(esker_tensor_list(tensors.tsh, at(&mut listed), none, WAIT));
    ok(esker_field_axes(fields.fsh, Ptr::null(), 0, 0, at(&mut axes), Ptr::null(), WAIT));
    ok(esker_field_watch(fields.fsh, Ptr::null(), 0, 0, at(&mut watch), WAIT));
    let store = &fields.store;
    let stores = [fields.fsh, tensors.tsh, put, tensor, sel, listed, axes, watch];
    let handles = [&stores[..], &[store.coh, store.poh]].concat();
    let mut fuzz = Fuzz::new(seed, &handles, &[ObjId::default()]);
    for _ in 0..rounds {
        let call = fuzz.random.below(CALLS.len());
        CALLS[call](&mut fuzz);
    }
    ok(esker_field_select_close(sel, WAIT));
    ok(esker_tensor_list_close(listed, WAIT));
    ok(esker_field_axes_close(axes, WAIT));
    ok(esker_field_watch_close(watch, WAIT));
    ok(esker_tensor_put_close(put, WAIT));
    ok(esker_tensor_close(tensor, WAIT));
}
