//! File systems (`daos_fs.h`, `daos_uns.h`).
use super::{ObjId, Prop, Ptr, Range, Str, UuidBytes};
use std::ffi::c_char;

/// `dfs_t`: C holds a cookie instead of a pointer, see [`crate::handles`].
#[repr(C)]
pub struct Dfs([u8; 0]);

/// `dfs_obj_t`, as [`Dfs`].
#[repr(C)]
pub struct DfsObj([u8; 0]);

/// `dfs_sys_t`, as [`Dfs`].
#[repr(C)]
pub struct DfsSys([u8; 0]);

/// `DIR` of `dfs_sys_opendir`, as [`Dfs`].
#[repr(C)]
pub struct Dir([u8; 0]);

/// `dfs_pipeline_t`; none exists.
#[repr(C)]
pub struct DfsPipeline([u8; 0]);

/// A text field; a NUL follows the text.
pub type Text = [c_char; 128];

/// `dfs_attr_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DfsAttr {
    /// Number chosen by the user.
    pub id: u64,
    /// Bytes of a file's chunk.
    pub chunk_size: u64,
    /// Class of all objects.
    pub oclass: u32,
    /// Properties of the container.
    pub props: Ptr<Prop>,
    /// Consistency mode.
    pub mode: u32,
    /// Class of directories.
    pub dir_oclass: u32,
    /// Class of files.
    pub file_oclass: u32,
    /// Hints for the choice of classes.
    pub hints: Text,
}

/// `dfs_iod_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DfsIod {
    /// Entries in `rgs`.
    pub nr: u64,
    /// Ranges in bytes.
    pub rgs: Ptr<Range>,
}

/// `dfs_obj_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DfsObjInfo {
    /// Class of the object.
    pub oclass: u32,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// Class of new directories in it.
    pub dir_oclass: u32,
    /// Class of new files in it.
    pub file_oclass: u32,
    /// The object.
    pub oid: ObjId,
}

/// `dfs_predicate_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Predicate {
    /// A pattern of names.
    pub name: [c_char; 255],
    /// Matches entries modified after this time.
    pub newer: i64,
    /// Not used.
    pub size: usize,
}

/// `struct duns_attr_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DunsAttr {
    /// Layout of the container.
    pub layout: u16,
    /// Class of all objects.
    pub oclass: u32,
    /// Bytes of a file's chunk.
    pub chunk_size: u64,
    /// Properties of the container.
    pub props: Ptr<Prop>,
    /// `DUNS_*`.
    pub flags: u32,
    /// The pool.
    pub pool: Text,
    /// The container.
    pub cont: Text,
    /// The system.
    pub sys: Str,
    /// The rest of the path.
    pub rel_path: Str,
    /// Whether the path is on Lustre.
    pub on_lustre: u8,
    /// Older form of `DUNS_NO_PREFIX` in [`DunsAttr::flags`].
    pub no_prefix: u8,
    /// The pool.
    pub pool_uuid: UuidBytes,
    /// The container.
    pub cont_uuid: UuidBytes,
    /// Class of directories.
    pub dir_oclass: u32,
    /// Class of files.
    pub file_oclass: u32,
    /// Hints for the choice of classes.
    pub hints: Text,
}

/// The bytes of a text before its NUL.
#[must_use]
pub fn text_bytes(text: &Text) -> Vec<u8> {
    text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect()
}

/// Converts bytes to a text field; excess bytes are cut off.
#[must_use]
pub fn text_of(bytes: &[u8]) -> Text {
    let mut text = [0; 128];
    let room = text.len() - 1;
    for (cell, byte) in text[..room].iter_mut().zip(bytes) {
        *cell = *byte as c_char;
    }
    text
}

/// A structure of the C library with all fields zero.
pub(crate) trait Zeroed: Sized {
    fn zeroed() -> Self {
        // SAFETY: the trait is implemented only for structures of numbers, for which zeros are valid.
        unsafe { std::mem::zeroed() }
    }
}

impl Zeroed for libc::stat {}
impl Zeroed for libc::dirent {}
