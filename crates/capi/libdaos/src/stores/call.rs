//! Common part of all functions of `esker.h`: they run with or without an event, report errors, and look up handles.
use super::failure::{Failure, Result};
use super::fields::{OpenAxes, OpenFields, OpenWatch, Selected};
use super::tensors::TensorList;
use super::texts;
use crate::abi::{Event, Handle, Ptr};
use crate::boundary::{self, guard};
use crate::code::Code;
use crate::handles::{self, Entry, Held, kind};
use crate::{event, init};
use esker::View;
use esker_tensors::{Put, Tensor, TensorStore};
use std::ffi::c_int;

/// Runs a call. `prepare` looks up handles and reads arguments on the calling thread, and returns the work. Without an
/// event, the calling thread also does the work. With an event, a background thread does it, because it may block.
pub(super) fn run<W>(ev: Ptr<Event>, prepare: impl FnOnce() -> Result<W>) -> c_int
where
    W: FnOnce() -> Result<()> + Send + 'static,
{
    if ev.is_null() {
        return now(|| prepare()?());
    }
    let launched = boundary::now(|| {
        event::launch(ev, || {
            let work = guard(Err(Code::MISC.into()), prepare);
            let work = work.map_err(|failure| texts::keep(ev, failure))?;
            let work = move || work().map_err(|failure| texts::keep(ev, failure));
            Ok(async move { event::blocking(work).await })
        })
    });
    texts::report_code(launched)
}

/// Runs work on the calling thread, and records the text of its error for `esker_error`.
pub(super) fn now(work: impl FnOnce() -> Result<()>) -> c_int {
    match init::is_ready() {
        true => texts::report(guard(Err(Code::MISC.into()), work)),
        false => texts::report(Err(Failure::new(
            Code::UNINIT,
            "the library is not initialised: call daos_init first",
        ))),
    }
}

/// A store of fields or tensors, or a part of one, that a handle identifies.
#[allow(clippy::large_enum_variant, reason = "each has a box of its own in the table of handles")]
pub(crate) enum OpenStore {
    Fields(OpenFields),
    Selected(Selected),
    Axes(OpenAxes),
    Watch(OpenWatch),
    View(View),
    Tensors(TensorStore),
    Put(Put),
    Tensor(Tensor),
    List(TensorList),
}

/// A type of object that a handle of `esker.h` can identify.
pub(super) trait Openable: Sized {
    /// Its name in error messages, and the functions that return a handle of it.
    const NAMES: [&'static str; 2];

    /// The object in `store`, if it is of this type.
    fn pick(store: &OpenStore) -> Option<&Self>;

    /// Wraps the object for the table of handles.
    fn entry(self) -> OpenStore;
}

macro_rules! openable {
    ($($kind:ident($type:ty): $name:literal by $function:literal;)*) => {$(
        impl Openable for $type {
            const NAMES: [&'static str; 2] = [$name, $function];

            fn pick(store: &OpenStore) -> Option<&Self> {
                match store {
                    OpenStore::$kind(it) => Some(it),
                    _ => None,
                }
            }

            fn entry(self) -> OpenStore {
                OpenStore::$kind(self)
            }
        }
    )*};
}

openable! {
    Fields(OpenFields): "a field store" by "esker_field_store_open";
    Selected(Selected): "a selection of fields" by "esker_field_select, esker_field_list or esker_field_watch_next";
    Axes(OpenAxes): "axes" by "esker_field_axes";
    Watch(OpenWatch): "a watch" by "esker_field_watch";
    View(View): "a view" by "esker_field_view";
    Tensors(TensorStore): "a tensor store" by "esker_tensor_store_open or esker_tensor_store_at";
    Put(Put): "a PUT" by "esker_tensor_begin or esker_tensor_join";
    Tensor(Tensor): "a tensor" by "esker_tensor_open";
    List(TensorList): "a list of tensors" by "esker_tensor_list";
}

/// Opens a handle of an object, and stores the handle in the caller's variable.
pub(super) fn open<T: Openable>(it: T, handle: Ptr<Handle>) -> Result<()> {
    handle.set(handles::open(Entry::Store(Box::new(it.entry())))?);
    Ok(())
}

/// The object of an open handle. If the handle is that of another kind of object, the error names the function that
/// returns handles of the right kind.
pub(super) fn opened<T: Openable>(handle: Handle) -> Result<Held<T>> {
    let found = handles::held(handle, |entry| match entry {
        Entry::Store(store) => T::pick(store),
        _ => None,
    });
    found.map_err(|_| {
        let [name, function] = T::NAMES;
        Failure::new(
            Code::NO_HDL,
            format!("the handle is not that of {name} that is open: pass one from {function}"),
        )
    })
}

/// Closes a handle and returns its object. The caller drops the object, which may block.
pub(super) fn close_now<T: Openable>(handle: Handle) -> Result<Held<Entry>> {
    opened::<T>(handle)?;
    Ok(handles::close(handle.cookie, &[kind::STORE])?)
}

/// Closes a handle.
pub(super) fn close<T: Openable>(handle: Handle, ev: Ptr<Event>) -> c_int {
    run(ev, || {
        let closed = close_now::<T>(handle)?;
        Ok(move || {
            drop(closed);
            Ok(())
        })
    })
}
