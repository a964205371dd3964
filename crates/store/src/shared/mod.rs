//! Memory that all processes of a pool share: the control file. Except for the write buffers of version 5, its atomics
//! need not survive a restart of the machine.
pub(crate) mod control;
pub(crate) mod double_open;
pub(crate) mod leases;
pub(crate) mod read_version;
pub(crate) mod write_buffer;
