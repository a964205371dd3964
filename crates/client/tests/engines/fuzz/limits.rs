//! Requests beyond the limits of one client are refused; the engine continues to serve.
use super::engine::Served;
use esker::backend::memory::Memory;
use esker_engine::{FETCHES_MAX, HANDLES_MAX};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::limits::TX_OPS_MAX;
use esker_types::ops::{Cond, View};
use esker_types::{ErrorKind, ObjectId, Uuid};
use esker_wire::frame::MESSAGE_MAX;
use esker_wire::message::{
    At, ChangeRequest, ContainerRequest, DkeyRequest, Handle, MetadataRequest, PoolRequest, Reply,
    Request, WriteRequest,
};
use std::sync::Arc;

const CONTAINER: Uuid = Uuid([9; 16]);

fn served() -> Served {
    Served::new(Arc::new(Memory::new(4)), CONTAINER, u64::MAX)
}

fn oid() -> ObjectId {
    ObjectId::from_bytes([0; 16])
}

#[test]
fn open_containers_of_a_client_are_limited() {
    let mut served = served();
    let open = Request::Pool(PoolRequest::Open(ContainerRef::Uuid(CONTAINER), OpenMode::ReadOnly));
    // One is open already.
    for _ in 1..HANDLES_MAX {
        assert!(matches!(served.ask(&open), Reply::Opened(..)));
    }
    assert_eq!(served.ask(&open).failure(), Some(ErrorKind::Overflow));
    let Reply::Containers(all) = served.ask(&Request::Pool(PoolRequest::List)) else {
        panic!("no list of containers")
    };
    assert_eq!(all[0].handles as usize, HANDLES_MAX, "the one that was refused is closed");
    let close = Request::Container(Handle(1), ContainerRequest::Close);
    assert!(matches!(served.ask(&close), Reply::Done));
    assert!(matches!(served.ask(&open), Reply::Opened(..)));
}

#[test]
fn reply_longer_than_a_frame_is_an_error() {
    let mut served = served();
    for letter in ["a", "b"] {
        let name = letter.repeat(MESSAGE_MAX / 2);
        let set = MetadataRequest::Set(vec![(&name, Some(b"value"))]);
        let reply = served.ask(&Request::Pool(PoolRequest::Metadata(set)));
        assert!(matches!(reply, Reply::Done));
    }
    let list = Request::Pool(PoolRequest::Metadata(MetadataRequest::List("")));
    assert_eq!(served.ask(&list).failure(), Some(ErrorKind::Overflow));
    let list = Request::Pool(PoolRequest::Metadata(MetadataRequest::List("b")));
    assert!(matches!(served.ask(&list), Reply::Names(names) if names.len() == 1));
}

#[test]
fn requests_of_too_many_parts_are_refused() {
    let mut served = served();
    let dkey = || DkeyRequest { dkey: b"", cond: Cond::NONE, akeys: Vec::new() };
    let dkeys = std::iter::repeat_with(dkey).take(FETCHES_MAX + 1).collect();
    let at = At { view: View::Latest, tokens: false };
    let fetch = Request::Container(Handle(1), ContainerRequest::Fetch(oid(), dkeys, at));
    assert_eq!(served.ask(&fetch).failure(), Some(ErrorKind::Overflow));
    let write = || (oid(), WriteRequest::PunchObject(Cond::NONE));
    let writes = std::iter::repeat_with(write).take(TX_OPS_MAX + 1).collect();
    let change = ChangeRequest { id: None, tokens: None, writes };
    let write = Request::Container(Handle(1), ContainerRequest::Write(change));
    assert_eq!(served.ask(&write).failure(), Some(ErrorKind::Overflow));
}
