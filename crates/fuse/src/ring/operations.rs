//! The operation of each request, and its reply.
use super::entry::Message;
use super::reply::{Listing, Reply, header};
use super::request::{Header, Range, Request};
use crate::answer::{Answer, Refusal};
use crate::data::Written;
use crate::names::New;
use crate::passing::Passage;
use crate::served::{Caller, Served};
use crate::xattr::XattrReply;
use fuser::{Errno, FopenFlags};

/// Threads of a queue, as an operation sees them.
pub(super) trait Threads {
    /// Runs `work`, which may take long, while another thread serves the queue.
    fn aside<T>(&self, work: impl FnOnce() -> T) -> T;

    /// Ends a bypassing write: waits until the kernel has dropped its pages, while another thread serves the queue.
    fn end(&self, passage: Passage);
}

/// A file system, and who may use it.
pub(super) struct Operations<'a, T> {
    pub(super) served: &'a Served,
    /// The only user that is served; `None` for all.
    pub(super) only: Option<u32>,
    pub(super) threads: &'a T,
}

impl<T: Threads> Operations<'_, T> {
    /// Carries out a request and puts the reply in its place.
    pub(super) fn reply_to(&self, message: &mut Message<'_>) {
        match self.carry_out(message) {
            Ok(len) => finish(message, None, len),
            Err(Refusal(errno)) => finish(message, Some(errno), 0),
        }
    }

    /// Replaces a request in its memory by a reply with the error `errno`.
    pub(super) fn refuse(&self, message: &mut Message<'_>, errno: Errno) {
        finish(message, Some(errno), 0);
    }

    /// Parses and performs a request, and encodes its reply over the payload. Returns the bytes of the payload's reply.
    fn carry_out(&self, message: &mut Message<'_>) -> Answer<usize> {
        let header = Header::parse(message.header)?;
        let input = message.payload.get(..message.len()).ok_or(Errno::EINVAL)?;
        let request = Request::parse(&header, message.operation, input)?;
        self.admit(&request, header.caller)?;
        let reply = match request {
            Request::Read(range) => self.read(header.number, range, message.payload)?,
            Request::ReadDir(range) => self.list(range, message.payload)?,
            Request::ReadDirPlus(range) => self.list_with_attributes(range, message.payload)?,
            request if request.may_take_long() => {
                self.threads.aside(|| self.perform(&header, request))?
            }
            request => self.perform(&header, request)?,
        };
        reply.encode(message.payload, self.served.fresh)
    }

    /// Refuses users other than the owner of the mount (`EACCES`), except for requests on what is open already.
    fn admit(&self, request: &Request<'_>, caller: Caller) -> Answer<()> {
        match self.only {
            Some(owner) if owner != caller.uid && !request.is_by_handle() => {
                Err(Errno::EACCES.into())
            }
            _ => Ok(()),
        }
    }

    /// Reads from a file to the payload directly.
    fn read(&self, number: u64, range: Range, payload: &mut [u8]) -> Answer<Reply> {
        let buffer = payload.get_mut(..range.len as usize).ok_or(Errno::EINVAL)?;
        let (file, into_pages) = ((number, range.handle), !range.bypasses);
        self.served.read(file, range.offset, into_pages, buffer).map(Reply::InPlace)
    }

    /// Serves `readdir`, with the reply written to the payload directly.
    fn list(&self, range: Range, payload: &mut [u8]) -> Answer<Reply> {
        let mut listing = Listing::new(payload, range.len, self.served.fresh);
        self.served.list(range.handle, range.offset, |listed| listing.add(listed))?;
        Ok(listing.reply())
    }

    /// Serves `readdirplus`, with the reply written to the payload directly.
    fn list_with_attributes(&self, range: Range, payload: &mut [u8]) -> Answer<Reply> {
        let mut listing = Listing::new(payload, range.len, self.served.fresh);
        self.served.list_with_attributes(range.handle, range.offset, |listed, attr| {
            listing.add_with_attributes(listed, attr)
        })?;
        Ok(listing.reply())
    }

    /// Carries out a request whose reply is made from values.
    fn perform(&self, header: &Header, request: Request<'_>) -> Answer<Reply> {
        let (served, number, caller) = (self.served, header.number, header.caller);
        let done = |()| Reply::Empty;
        match request {
            Request::Lookup { name } => served.look_up(number, name).map(Reply::Entry),
            Request::GetAttr => served.attributes(number).map(Reply::Attr),
            Request::SetAttr(wanted) => served.set_attributes(number, wanted).map(Reply::Attr),
            Request::ReadLink => served.read_link(number).map(Reply::Bytes),
            Request::Symlink { name, target } => {
                served.make_link(number, name, target, New::link_by(caller)).map(Reply::Entry)
            }
            Request::MkNod { name, mode } => {
                served.make_file(number, name, New::by(caller, mode)).map(Reply::Entry)
            }
            Request::MkDir { name, mode } => {
                served.make_directory(number, name, New::by(caller, mode)).map(Reply::Entry)
            }
            Request::Unlink { name } => served.unlink(number, name).map(done),
            Request::RmDir { name } => served.remove_directory(number, name).map(done),
            Request::Rename { name, new_parent, new_name, flags } => {
                served.rename((number, name), (new_parent, new_name), flags).map(done)
            }
            Request::Link { name } => served.refuse_name(number, name),
            Request::Open { flags } => served.open(number, flags, caller).map(Reply::Opened),
            Request::Create { name, flags, mode } => {
                let created = served.create(number, name, New::by(caller, mode), flags);
                created.map(|(attr, opened)| Reply::Created(attr, opened))
            }
            Request::StatFs => served.space().map(Reply::Space),
            Request::Release { handle } => served.close(number, handle).map(done),
            Request::FSync => served.sync(number).map(done),
            Request::OpenDir => {
                let opened = served.open_directory(number);
                opened.map(|handle| Reply::Opened((handle, FopenFlags::empty())))
            }
            Request::ReleaseDir { handle } => {
                served.listings.close(handle);
                Ok(Reply::Empty)
            }
            Request::FSyncDir => served.flush().map(done),
            Request::Allocate { offset, len, mode } => {
                served.allocate(number, (offset, len), mode, caller).map(done)
            }
            Request::Seek { offset, whence } => {
                served.seek(number, offset, whence).map(Reply::Offset)
            }
            Request::Copy(copy) => served.copy(&copy, caller).map(Reply::Count),
            Request::Write { range, data, how, flags } => {
                let Range { handle, offset, len, bypasses: passes } = range;
                let written = Written { offset, data, how, flags, passes };
                match served.write((number, handle), &written)? {
                    None => {}
                    Some(passage) => self.threads.end(passage),
                }
                Ok(Reply::Count(len))
            }
            request => self.perform_on_attributes(number, request),
        }
    }

    /// Carries out a request on extended attributes.
    fn perform_on_attributes(&self, number: u64, request: Request<'_>) -> Answer<Reply> {
        match request {
            Request::SetXattr { name, value, flags } => {
                self.served.set_attribute(number, name, value, flags).map(|()| Reply::Empty)
            }
            Request::GetXattr { name, room } => sized(self.served.attribute(number, name), room),
            Request::ListXattr { room } => sized(self.served.attribute_names(number), room),
            Request::RemoveXattr { name } => {
                self.served.remove_attribute(number, name).map(|()| Reply::Empty)
            }
            _ => Err(Errno::ENOSYS.into()),
        }
    }
}

/// Writes the header of a reply over that of the request. `len` is the length of the reply's data in bytes.
fn finish(message: &mut Message<'_>, errno: Option<Errno>, len: usize) {
    message.set_len(len);
    let unique = Header::parse(message.header).map_or(0, |header| header.unique);
    // The memory has room for it.
    let _ = header(message.header, unique, errno, len);
}

/// The reply to a program whose buffer for the value has `room` bytes.
fn sized(value: Answer<Vec<u8>>, room: u32) -> Answer<Reply> {
    Ok(match XattrReply::for_room(value?, room)? {
        XattrReply::Size(size) => Reply::Count(size),
        XattrReply::Value(value) => Reply::Bytes(value),
    })
}
