//! Fields found in other ways: by axes, watches, views, parts and adopted files.
use super::*;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

const FOREVER: i64 = -1;
const EXISTING: u32 = 8;
const EMPTY: u32 = 16;
const IN_PLACE: u32 = 32;

/// The axes of a request, as `name=value/value` each.
fn axes(fields: &Fields, request: &str, flags: u32) -> Vec<String> {
    let (mut request, mut axes, mut count) = (Pairs::new(request), NONE, 0);
    let (pairs, number) = (request.at(), request.len());
    ok(esker_field_axes(fields.fsh, pairs, number, flags, at(&mut axes), at(&mut count), WAIT));
    let all = (0..count).map(|index| axis(axes, index)).collect();
    ok(esker_field_axes_close(axes, WAIT));
    all
}

/// One axis, as `name=value/value`.
fn axis(axes: Handle, index: u32) -> String {
    let (mut name, mut values) = ([b'.'; 65], 0);
    let target = list(&mut name).cast();
    ok(esker_field_axis(axes, index, target, 65, at(&mut values)));
    let value = |number| {
        let mut value = [b'.'; 256];
        let target = list(&mut value).cast();
        ok(esker_field_axis_value(axes, index, number, target, 256));
        read(target)
    };
    let values: Vec<_> = (0..values).map(value).collect();
    format!("{}={}", read(target), values.join("/"))
}

#[test]
fn axes_have_the_values_of_each_name_in_the_order_of_its_type() {
    let fields = Fields::new();
    for step in [12, 6, 24] {
        ok(fields.archive(&format!("run=a,type=fc,step={step}"), b"x"));
    }
    assert!(axes(&fields, "", 0).is_empty(), "nothing is flushed");
    ok(esker_field_flush(fields.fsh, WAIT));
    assert_eq!(axes(&fields, "", 0), ["run=a", "step=6/12/24", "type=fc"]);
    assert_eq!(axes(&fields, "step=0/to/12/by/6", EMPTY), ["run=a", "step=6/12", "type=fc"]);
}

#[test]
fn entries_past_the_end_of_axes_are_refused() {
    let (fields, mut axes) = (Fields::new(), NONE);
    fields.fill();
    ok(esker_field_axes(fields.fsh, Ptr::null(), 0, 0, at(&mut axes), Ptr::null(), WAIT));
    let (mut small, none) = ([0; 4], Ptr::null());
    fails(INVAL, "axis 3 of 3", esker_field_axis(axes, 3, none, 0, Ptr::null()));
    let rc = esker_field_axis(axes, 1, list(&mut small).cast(), 4, Ptr::null());
    fails(OVERFLOW, "name has 4 bytes of the 5", rc);
    let value = |number, value| esker_field_axis_value(axes, 1, number, value, 4);
    fails(INVAL, "value 3 of axis step, which has 3", value(3, list(&mut small).cast()));
    fails(INVAL, "value is a null pointer", value(0, none));
    ok(esker_field_axes_close(axes, WAIT));
    fails(NO_HDL, "axes", esker_field_axes_close(axes, WAIT));
}

/// A watch, which is closed at the end of the test.
struct Watched(Handle);

impl Watched {
    fn new(fields: &Fields, request: &str, flags: u32) -> Self {
        let (mut request, mut watch) = (Pairs::new(request), NONE);
        let (pairs, count) = (request.at(), request.len());
        ok(esker_field_watch(fields.fsh, pairs, count, flags, at(&mut watch), WAIT));
        Self(watch)
    }

    /// The steps of the fields that the watch yields next.
    fn next(&self, timeout: i64) -> Vec<String> {
        let (mut sel, mut count) = (NONE, 0);
        ok(esker_field_watch_next(self.0, timeout, at(&mut sel), at(&mut count)));
        let step = |index| entry(sel, index).0.rsplit('=').next().unwrap().to_owned();
        let steps = (0..count).map(step).collect();
        ok(esker_field_select_close(sel, WAIT));
        steps
    }

    /// Checks that no field arrives within `timeout` microseconds.
    fn times_out(&self, timeout: i64) {
        let (mut sel, mut count) = (NONE, 7);
        let rc = esker_field_watch_next(self.0, timeout, at(&mut sel), at(&mut count));
        fails(TIMEDOUT, &format!("within {timeout} microseconds"), rc);
        assert_eq!((sel, count), (NONE, 7));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        esker_field_watch_close(self.0, WAIT);
    }
}

#[test]
fn a_watch_yields_the_fields_of_each_flush() {
    let fields = Fields::new();
    fields.fill();
    let watch = Watched::new(&fields, "step=1/to/9", 0);
    let all = Watched::new(&fields, "", EXISTING);
    assert_eq!(all.next(0), ["0", "1", "2"]);
    watch.times_out(0);
    for steps in [[4, 5], [1, 0]] {
        for step in steps {
            ok(fields.archive(&format!("run=a,type=fc,step={step}"), b"x"));
        }
        watch.times_out(0);
        ok(esker_field_flush(fields.fsh, WAIT));
        let wanted: Vec<_> =
            steps.iter().filter(|step| **step > 0).map(|step| step.to_string()).collect();
        assert_eq!(watch.next(FOREVER), wanted);
    }
    watch.times_out(2000);
}

#[test]
fn threads_wait_on_one_watch_until_it_is_closed() {
    let fields = Fields::new();
    let watch = Watched::new(&fields, "", 0);
    let yielded = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let wait = || {
            let mut sel = NONE;
            while esker_field_watch_next(watch.0, FOREVER, at(&mut sel), Ptr::null()) == 0 {
                ok(esker_field_select_close(sel, WAIT));
                yielded.fetch_add(1, Ordering::Relaxed);
            }
            assert!(last_text().contains("a watch"), "{}", last_text());
        };
        (0..2).for_each(|_| drop(scope.spawn(wait)));
        fields.fill();
        esker_testing::wait_for("the fields", || yielded.load(Ordering::Relaxed) > 0);
        watch.times_out(1000);
        ok(esker_field_watch_close(watch.0, WAIT));
    });
    assert_eq!(yielded.into_inner(), 1, "a flush is yielded once");
}

/// Views a field. Returns the result of the call, the handle of the view, and a copy of the bytes.
fn view(sel: Handle, index: u64, flags: u32) -> (c_int, Handle, Vec<u8>) {
    let (mut view, mut data, mut size) = (NONE, std::ptr::null::<c_void>(), 0);
    let (data_at, size_at) = (at(&mut data), at(&mut size));
    let rc = esker_field_view(sel, index, flags, at(&mut view), data_at, size_at, WAIT);
    let bytes = at_address::<c_void>(data.cast_mut()).read(size).unwrap().to_vec();
    (rc, view, bytes)
}

#[test]
fn a_view_keeps_its_bytes_until_it_is_closed() {
    let fields = Fields::new();
    fields.fill();
    let (rc, sel, _) = fields.select("run=a,type=fc,step=1", false);
    ok(rc);
    let (mut open, mut data, mut size) = (NONE, std::ptr::null::<c_void>(), 0);
    let (data_at, size_at) = (at(&mut data), at(&mut size));
    ok(esker_field_view(sel, 0, 0, at(&mut open), data_at, size_at, WAIT));
    ok(esker_field_select_close(sel, WAIT));
    fields.fill();
    ok(esker_field_purge(fields.fsh, Ptr::null(), 0, DOIT, Ptr::null(), WAIT));
    assert_eq!(at_address::<c_void>(data.cast_mut()).read(size).unwrap(), b"step 1");
    ok(esker_field_view_close(open, WAIT));
    fails(NO_HDL, "a view", esker_field_view_close(open, WAIT));
}

#[test]
fn a_view_that_needs_a_copy_is_refused_if_it_must_be_in_place() {
    let fields = Fields::new();
    fields.fill();
    let (rc, sel, _) = fields.select("run=a,type=fc,step=1", false);
    ok(rc);
    fails(NOTSUPPORTED, "cannot be used in place", view(sel, 0, IN_PLACE).0);
    let (rc, open, bytes) = view(sel, 0, 0);
    ok(rc);
    assert_eq!(bytes, b"step 1");
    ok(esker_field_view_close(open, WAIT));
    fails(INVAL, "field number 1 of 1", view(sel, 1, 0).0);
    ok(esker_field_select_close(sel, WAIT));
}

/// Adopts a part of a file as the field of a step, and returns the result of the call.
fn adopt(fields: &Fields, step: u32, path: &CStr, offset: u64, size: u64) -> c_int {
    let mut key = Pairs::new(&format!("run=a,type=fc,step={step}"));
    let (pairs, count) = (key.at(), key.len());
    esker_field_adopt(fields.fsh, pairs, count, text(path), offset, size, WAIT)
}

#[test]
fn bytes_of_a_file_are_adopted_as_a_field() {
    let fields = Fields::new();
    let file = std::env::temp_dir().join(format!("esker-c-adopted-{}", std::process::id()));
    std::fs::write(&file, b"0123456789").unwrap();
    let path = CString::new(file.to_str().unwrap()).unwrap();
    ok(adopt(&fields, 6, &path, 2, 5));
    fails(INVAL, "6 bytes from 5 on are not in a file of 10 bytes", adopt(&fields, 7, &path, 5, 6));
    fails(INVAL, "not in a file", adopt(&fields, 7, &path, u64::MAX, 2));
    fails(INVAL, "not in a file", adopt(&fields, 7, c"/", 0, 1));
    fails(NONEXIST, "adopting /no/file", adopt(&fields, 7, c"/no/file", 0, 1));
    ok(fields.archive("run=a,type=fc,step=12", b"stored"));
    ok(esker_field_flush(fields.fsh, WAIT));
    assert_eq!(fields.retrieve("run=a,type=fc,step=6", 5), (0, 5, b"23456".to_vec()));
    let (rc, sel, _) = fields.select("run=a,type=fc,step=6/12", false);
    ok(rc);
    for (index, file, start) in [(0, path.to_str().unwrap(), 2), (1, "", 0)] {
        let (mut archived, mut name, mut offset) = (0, [b'.'; 4097], 9);
        let (name, offset_at) = (list(&mut name).cast(), at(&mut offset));
        ok(esker_field_location(sel, index, at(&mut archived), name, 4097, offset_at));
        assert_eq!((read(name).as_str(), offset), (file, start));
        assert!(archived > 0);
    }
    ok(esker_field_select_close(sel, WAIT));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_part_of_a_field_is_read() {
    let fields = Fields::new();
    fields.fill();
    let (rc, sel, _) = fields.select("run=a,type=fc,step=2", false);
    ok(rc);
    let mut buffer = *b".....";
    let read_at = |offset, buffer: &mut [u8]| {
        let size = buffer.len() as u64;
        esker_field_read_at(sel, 0, offset, room(buffer), size, WAIT)
    };
    ok(read_at(5, &mut buffer[1..2]));
    ok(read_at(0, &mut buffer[2..]));
    assert_eq!(&buffer, b".2ste");
    fails(INVAL, "5 bytes from 2 on of a field of 6 bytes", read_at(2, &mut buffer));
    fails(INVAL, "buf is a null pointer", esker_field_read_at(sel, 0, 0, Ptr::null(), 1, WAIT));
    ok(esker_field_select_close(sel, WAIT));
}
