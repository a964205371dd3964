//! Arguments of tasks, as laid out in `daos/task_args_*.h`, and the functions that take them.
mod objects;
mod pools;

use crate::abi::{Bytes, Event, Ptr};
use crate::code::{self, Result};
use std::ffi::c_int;

/// A function of the DAOS API that takes its arguments from memory.
#[derive(Clone, Copy)]
pub(super) struct Call(fn(Bytes) -> Result<c_int>);

impl Call {
    /// The function of an opcode (`DAOS_OPC_*`), if there is one.
    pub(super) fn from_opcode(opcode: c_int) -> Option<Self> {
        pools::find_function(opcode).or_else(|| objects::find_function(opcode)).map(Self)
    }

    /// Calls the function with these arguments, and waits for its end.
    pub(super) fn run(self, args: Bytes) -> c_int {
        crate::boundary::guard(code::Code::MISC.0, || (self.0)(args).unwrap_or_else(|code| code.0))
    }
}

/// The null event: tasks wait for the function that they call.
fn now() -> Ptr<Event> {
    Ptr::null()
}

/// Defines `find_function`, which returns the function of an opcode. Each opcode comes with the fields of its arguments
/// and the call that takes them.
macro_rules! calls {
    ($($opcode:literal { $($field:ident: $type:ty),* } => $call:expr;)*) => {
        pub(super) fn find_function(opcode: std::ffi::c_int) -> Option<super::Function> {
            match opcode {
                $($opcode => Some(|args| {
                    #[repr(C)]
                    #[derive(Clone, Copy)]
                    struct Args { $($field: $type),* }
                    let Args { $($field),* } = args.cast::<Args>().get()?;
                    Ok($call)
                }),)*
                _ => None,
            }
        }
    };
}
pub(crate) use calls;

/// Function that reads the arguments of a call and runs it.
type Function = fn(Bytes) -> Result<c_int>;
