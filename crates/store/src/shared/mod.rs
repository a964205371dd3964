//! Memory that all processes of a pool share: the control file, whose atomics hold what need not survive a restart of
//! the machine.
pub(crate) mod control;
pub(crate) mod double_open;
pub(crate) mod leases;
pub(crate) mod read_version;
pub(crate) mod write_buffer;
