//! libdaos on Esker: the DAOS C API over the client crate, binary compatible.
//!
//! [`abi`] has the structures of C, [`handles`] what is behind the cookies C holds, [`edge`] what every
//! call goes through. The other rooms hold the functions, named as in the headers of `include/`,
//! which say what each does; documentation here only adds to them.
pub mod abi;
pub mod array;
pub mod code;
pub mod container;
mod convert;
mod edge;
pub mod event;
mod handles;
pub mod init;
pub mod kv;
pub mod list;
pub mod object;
mod oit;
pub mod pool;

pub use code::Code;
