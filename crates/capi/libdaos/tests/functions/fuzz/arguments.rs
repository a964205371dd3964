//! Random arguments of all kinds, drawn from a seed.
use crate::common::*;
use daos::abi::*;
use std::ffi::c_void;

/// Size of the buffer that pointers refer to; counts that functions trust stay well below.
const ROOM: usize = 8 << 20;

/// Pseudo-random numbers from a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 31
    }

    /// A number from 0 to `end` - 1.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    pub(super) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Mostly small numbers, sometimes absurd ones.
    pub(super) fn number(&mut self) -> u64 {
        let small = self.word() % 9;
        let odd = [u64::MAX, 1 << 63, u64::from(u32::MAX), 1 << 40, 4097, 65537];
        if self.below(5) == 0 { self.one_of(&odd) } else { small }
    }
}

/// The source of the arguments.
pub(super) struct Fuzz {
    pub(super) random: Random,
    room: Vec<u64>,
    handles: Vec<Handle>,
    oids: Vec<ObjId>,
}

impl Fuzz {
    pub(super) fn new(seed: u64, handles: &[Handle], oids: &[ObjId]) -> Self {
        let room = vec![0; ROOM / 8];
        Self { random: Random(seed), room, handles: handles.to_vec(), oids: oids.to_vec() }
    }

    pub(super) fn n32(&mut self) -> u32 {
        self.random.number() as u32
    }

    /// Mostly an open handle, otherwise none, a random one, or an open one with a bit flipped.
    pub(super) fn handle(&mut self) -> Handle {
        let known = self.random.one_of(&self.handles.clone());
        match self.random.below(8) {
            0 => NONE,
            1 => Handle { cookie: self.random.word() },
            2 => Handle { cookie: known.cookie ^ 1 << self.random.below(64) },
            _ => known,
        }
    }

    /// No transaction, or a handle of any kind.
    pub(super) fn th(&mut self) -> Handle {
        if self.random.below(2) == 0 { NONE } else { self.handle() }
    }

    /// Mostly the id of an object that exists, otherwise a random one.
    pub(super) fn oid(&mut self) -> ObjId {
        let wild = ObjId { lo: self.random.word(), hi: self.random.word() };
        if self.random.below(4) == 0 { wild } else { self.random.one_of(&self.oids.clone()) }
    }

    /// A null pointer, or a pointer to the buffer, filled with zeros, noise or ones.
    pub(super) fn ptr<T>(&mut self) -> Ptr<T> {
        if self.random.below(6) == 0 {
            return Ptr::null();
        }
        let start = self.random.below(64) * 8;
        let noise = [0, u64::MAX, self.random.word(), 1];
        let fill = self.random.one_of(&noise);
        self.room[start..start + 64].fill(fill);
        list(&mut self.room[start..]).cast()
    }

    /// A buffer, whose length may exceed its capacity. Its pointer is valid or null.
    pub(super) fn iov(&mut self) -> Iov {
        let len = self.random.one_of(&[0, 1, 8, 8, 24, 72, 100, 5000]);
        let buf_len = self.random.one_of(&[len, len, len, len + 1, 0]);
        let buf = self.ptr::<c_void>();
        Iov { buf, buf_len, len }
    }

    /// A pointer to the value, or null. The memory is never freed.
    pub(super) fn boxed<T>(&mut self, value: T) -> Ptr<T> {
        if self.random.below(8) == 0 { Ptr::null() } else { at(Box::leak(Box::new(value))) }
    }

    pub(super) fn iov_ptr(&mut self) -> Ptr<Iov> {
        let many: Vec<_> = (0..9).map(|_| self.iov()).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    pub(super) fn small(&mut self) -> u32 {
        self.random.one_of(&[0, 1, 1, 1, 2, 3, 8, u32::MAX])
    }

    pub(super) fn sgl(&mut self) -> Ptr<Sgl> {
        let many: Vec<_> = (0..9)
            .map(|_| Sgl { nr: self.small(), nr_out: self.n32(), iovs: self.iov_ptr() })
            .collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    pub(super) fn recxs(&mut self) -> Ptr<Recx> {
        let many: Vec<_> =
            (0..9).map(|_| Recx { idx: self.random.number(), nr: self.random.number() }).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    pub(super) fn iods(&mut self) -> Ptr<Iod> {
        let many: Vec<_> = (0..9)
            .map(|_| Iod {
                name: self.iov(),
                kind: self.random.one_of(&[0, 1, 1, 2, 2, 77]),
                size: self.random.number(),
                flags: self.random.number(),
                nr: self.small(),
                recxs: self.recxs(),
            })
            .collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    pub(super) fn ioms(&mut self) -> Ptr<Iom> {
        let recx = Recx::default();
        let many: Vec<_> = (0..9)
            .map(|_| {
                let recxs = self.recxs();
                let nr = if recxs.is_null() { self.small() } else { self.small().min(9) };
                let flags = self.n32();
                let (kind, nr_out, size) = (0, 0, 0);
                Iom { kind, nr, nr_out, flags, size, recx_lo: recx, recx_hi: recx, recxs }
            })
            .collect();
        if self.random.below(2) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    pub(super) fn array_iod(&mut self) -> Ptr<ArrayIod> {
        let rgs = self.recxs().cast();
        let nr = u64::from(self.small());
        let noise = self.random.word();
        self.boxed(ArrayIod { nr, rgs, nr_short_read: noise, nr_read: noise })
    }

    pub(super) fn anchor(&mut self) -> Ptr<Anchor> {
        let kind = self.random.one_of(&[0, 0, 1, 2, 3, 9]);
        let (shard, noise) = (self.random.word() as u16, self.random.word() as u8);
        let sub_anchors = self.random.number();
        self.boxed(Anchor { kind, shard, flags: 0, sub_anchors, buf: [noise; 104] })
    }

    pub(super) fn str(&mut self) -> Str {
        let names = [c"key", c"", c"test", c"S1", c"bob@", c"A::bob@:r", c"label:x", c"1:2"];
        let long = c"0123456789012345678901234567890123456789012345678901234567890123456789";
        match self.random.below(10) {
            0 => Ptr::null(),
            1 => text(long),
            2 => text(c"\xff\xfe"),
            _ => text(self.random.one_of(&names)),
        }
    }

    pub(super) fn strs(&mut self) -> Ptr<Str> {
        let many: Vec<_> = (0..9).map(|_| self.str()).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    pub(super) fn buffers(&mut self) -> Ptr<Bytes> {
        let many: Vec<_> = (0..9).map(|_| self.ptr()).collect();
        if self.random.below(4) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    pub(super) fn sizes(&mut self) -> Ptr<u64> {
        let many: Vec<_> = (0..9).map(|_| self.random.one_of(&[0, 1, 5, 64, 400])).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    /// Lists of properties that hold numbers; other values would need valid pointers.
    pub(super) fn prop(&mut self) -> Ptr<Prop> {
        let numbers = [3, 4, 0x1002, 0x1004, 0x1007, 0x1009, 0x1012, 0x1013, 0x1017, 0x7777];
        let entries: Vec<_> = (0..5)
            .map(|_| PropEntry {
                kind: self.random.one_of(&numbers),
                // SAFETY: the property is a number, or unknown.
                value: unsafe { PropValue::new(self.random.number()) },
                flags: (self.random.below(4) == 0).into(),
                reserved: 0,
            })
            .collect();
        let entries = list(Vec::leak(entries));
        let broken = self.random.below(8) == 0;
        let nr = self.random.one_of(&[0, 1, 2, 5, u32::MAX]);
        self.boxed(Prop { nr, reserved: 0, entries: if broken { Ptr::null() } else { entries } })
    }

    pub(super) fn small_int(&mut self) -> i32 {
        self.random.one_of(&[0, 1, 2, 9, -1, i32::MIN, i32::MAX])
    }

    pub(super) fn epr(&mut self) -> EpochRange {
        EpochRange { lo: self.random.number(), hi: self.random.number() }
    }

    /// No event, or memory that is not an event.
    pub(super) fn ev(&mut self) -> Ptr<Event> {
        if self.random.below(10) > 0 {
            return WAIT;
        }
        let noise = self.random.word();
        at(Box::leak(Box::new(Event { error: 1, space: [noise; 20], debug: noise })))
    }
}

impl Fuzz {
    pub(super) fn sizes32(&mut self) -> Ptr<u32> {
        let count = self.random.one_of(&[0, 1, 8, 8]);
        self.boxed(count)
    }

    pub(super) fn ints(&mut self) -> Ptr<i32> {
        let count = self.random.one_of(&[0, 1, 8, -1]);
        self.boxed(count)
    }

    pub(super) fn kds(&mut self) -> Ptr<KeyDesc> {
        if self.random.below(8) == 0 {
            Ptr::null()
        } else {
            list(Vec::leak(vec![KeyDesc::default(); 16]))
        }
    }

    pub(super) fn places_ev(&mut self) -> Ptr<Ptr<Event>> {
        Ptr::null()
    }

    pub(super) fn ptr_null<T>(&mut self) -> Ptr<T> {
        Ptr::null()
    }

    pub(super) fn zero(&mut self) -> i64 {
        0
    }

    pub(super) fn one(&mut self) -> u32 {
        1
    }

    pub(super) fn len_usize(&mut self) -> usize {
        self.random.one_of(&[0, 1, 5, 64])
    }

    /// Names that do not exist, so that open entities stay.
    pub(super) fn missing_name(&mut self) -> Str {
        let names = [c"none", c"", c"01234567-89ab-cdef-0123-456789abcdef", c"a/b"];
        if self.random.below(4) == 0 { Ptr::null() } else { text(self.random.one_of(&names)) }
    }

    /// Handles that are not open.
    pub(super) fn wild(&mut self) -> Handle {
        let known = self.random.one_of(&self.handles.clone());
        let bit = self.random.below(28);
        let wild = [Handle { cookie: self.random.word() }, NONE];
        let shifted = Handle { cookie: known.cookie ^ 1 << (bit + 32) };
        if self.random.below(2) == 0 { shifted } else { self.random.one_of(&wild) }
    }
}
