//! Axes: the values that each name has in the fields of a request.
use super::OpenFields;
use crate::abi::{Event, Handle, Ptr, Str};
use crate::stores::arguments::{self, Pair};
use crate::stores::call::{self, opened};
use crate::stores::failure::{Failure, Result};
use esker_fields::Axes;
use std::ffi::{c_int, c_uint};

/// `ESKER_EMPTY`: names that some of the fields lack have the empty value, too.
const EMPTY: c_uint = 16;

/// Names, sorted, each with its values in the order of their types.
pub(crate) struct OpenAxes(Vec<(String, Vec<String>)>);

impl OpenAxes {
    /// Copies the axes in the order of their names.
    fn new(axes: &Axes) -> Self {
        Self(axes.to_map().into_iter().collect())
    }

    /// Name and values of the axis `index`. The error gives the number of axes if there are fewer.
    fn axis(&self, index: u32) -> Result<&(String, Vec<String>)> {
        let axis = self.0.get(index as usize);
        axis.ok_or_else(|| Failure::invalid(format!("axis {index} of {}", self.0.len())))
    }
}

/// Finds the values of each name in the fields of a request.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_axes(
    fsh: Handle,
    request: Ptr<Pair>,
    pairs: u32,
    flags: c_uint,
    axes: Ptr<Handle>,
    count: Ptr<u32>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, EMPTY)?;
        let fields = opened::<OpenFields>(fsh)?;
        let selection = fields.selection(request, pairs)?;
        arguments::needed(axes, "axes")?;
        Ok(move || {
            let found = match flags & EMPTY {
                0 => fields.store.axes(&selection)?,
                _ => fields.store.axes_with_empty(&selection)?,
            };
            let found = OpenAxes::new(&found);
            let number = found.0.len() as u32;
            call::open(found, axes)?;
            count.set(number);
            Ok(())
        })
    })
}

/// Returns the name of an axis and the number of its values.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_axis(
    axes: Handle,
    index: u32,
    name: Str,
    name_size: u64,
    values: Ptr<u64>,
) -> c_int {
    call::now(|| {
        let axes = opened::<OpenAxes>(axes)?;
        let (axis, all) = axes.axis(index)?;
        arguments::give_text(name, name_size, axis, "name")?;
        values.set(all.len() as u64);
        Ok(())
    })
}

/// Copies value `number` of axis `index` to `value`, as text with a NUL. Both numbers begin at 0.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_axis_value(
    axes: Handle,
    index: u32,
    number: u64,
    value: Str,
    value_size: u64,
) -> c_int {
    call::now(|| {
        let axes = opened::<OpenAxes>(axes)?;
        let (axis, all) = axes.axis(index)?;
        let found = usize::try_from(number).ok().and_then(|number| all.get(number));
        let found = found.ok_or_else(|| {
            Failure::invalid(format!("value {number} of axis {axis}, which has {}", all.len()))
        })?;
        arguments::give_text(arguments::needed(value, "value")?, value_size, found, "value")
    })
}

/// Closes axes.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_axes_close(axes: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<OpenAxes>(axes, ev)
}
