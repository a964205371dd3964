//! File systems (`daos_fs.h`, `daos_uns.h`).
use super::{ObjId, Prop, Ptr, Range, Str, UuidBytes};
use std::ffi::c_char;

/// `dfs_t`: C holds a cookie in place of a pointer, see [`crate::handles`].
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

/// `dfs_pipeline_t`, which there is none of.
#[repr(C)]
pub struct Pipeline([u8; 0]);

/// Text in a field of its own, with a NUL behind it.
pub type Text = [c_char; 128];

/// `dfs_attr_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DfsAttr {
    /// The user's own number.
    pub id: u64,
    /// Bytes of a file's chunk.
    pub chunk_size: u64,
    /// Class of all objects.
    pub oclass: u32,
    /// Properties of the container.
    pub props: Ptr<Prop>,
    /// Consistency.
    pub mode: u32,
    /// Class of directories.
    pub dir_oclass: u32,
    /// Class of files.
    pub file_oclass: u32,
    /// Words that choose classes.
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
    /// Class of directories made in it.
    pub dir_oclass: u32,
    /// Class of files made in it.
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
    /// Modified later.
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
    /// On Lustre.
    pub on_lustre: u8,
    /// Of old: [`DunsAttr::flags`] has `DUNS_NO_PREFIX`.
    pub no_prefix: u8,
    /// The pool.
    pub pool_uuid: UuidBytes,
    /// The container.
    pub cont_uuid: UuidBytes,
    /// Class of directories.
    pub dir_oclass: u32,
    /// Class of files.
    pub file_oclass: u32,
    /// Words that choose classes.
    pub hints: Text,
}

/// The bytes of a text before its NUL.
#[must_use]
pub fn text_bytes(text: &Text) -> Vec<u8> {
    text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect()
}

/// A text; what does not fit is cut off.
#[must_use]
pub fn text_of(bytes: &[u8]) -> Text {
    let mut text = [0; 128];
    let room = text.len() - 1;
    for (place, byte) in text[..room].iter_mut().zip(bytes) {
        *place = *byte as c_char;
    }
    text
}

/// A structure of the C library with all its fields 0.
pub(crate) trait Zeroed: Sized {
    fn zeroed() -> Self {
        // SAFETY: implemented for structures of numbers only, for which zeros are valid.
        unsafe { std::mem::zeroed() }
    }
}

impl Zeroed for libc::stat {}
impl Zeroed for libc::dirent {}
