//! A pool on another node.
use crate::container::Opened;
use crate::link::Link;
use bytes::Bytes;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::ops::ReadTokens;
use esker_types::{Error, Result};
use esker_wire::message::{self, MetadataRequest, Name, PoolRequest, Request};
use std::sync::Arc;

/// A pool on another node, worked on through its engine.
pub struct Remote {
    link: Arc<Link>,
    capabilities: Capabilities,
}

impl Remote {
    /// The pool behind a connection.
    ///
    /// # Errors
    /// Those of a request.
    pub async fn open(link: Link) -> Result<Self> {
        let request = Request::Pool(PoolRequest::Capabilities);
        match link.call(&request, Bytes::new(), 0).await?.0.reply {
            message::Reply::Capabilities(capabilities) => {
                Ok(Self { link: Arc::new(link), capabilities })
            }
            other => Err(refusal(&link, other)),
        }
    }

    fn ask<'a, T>(
        &'a self,
        request: PoolRequest<'a>,
        read: impl FnOnce(message::Reply) -> Option<T> + Send + 'a,
    ) -> Reply<'a, T> {
        ask(&self.link, Request::Pool(request), None, read)
    }
}

/// Sends a request without data, and takes the reply that fits it. Tokens go to `tokens`.
pub(crate) fn ask<'a, T>(
    link: &'a Link,
    request: Request<'a>,
    tokens: Option<&'a ReadTokens>,
    read: impl FnOnce(message::Reply) -> Option<T> + Send + 'a,
) -> Reply<'a, T> {
    Reply::Pending(Box::pin(async move {
        let (response, _) = link.call(&request, Bytes::new(), 0).await?;
        prove(tokens, &response.tokens);
        match response.reply {
            message::Reply::Failed(failure) => Err(failure.into()),
            reply => read(reply).ok_or_else(|| link.unexpected()),
        }
    }))
}

/// Why a request was not done.
#[cold]
pub(crate) fn refusal(link: &Link, reply: message::Reply) -> Error {
    match reply {
        message::Reply::Failed(failure) => failure.into(),
        _ => link.unexpected(),
    }
}

pub(crate) fn prove(read: Option<&ReadTokens>, tokens: &[Vec<u8>]) {
    if let Some(read) = read {
        tokens.iter().for_each(|token| read.add(token));
    }
}

pub(crate) fn done(reply: message::Reply) -> Option<()> {
    matches!(reply, message::Reply::Done).then_some(())
}

fn name_of(name: ContainerRef<'_>) -> Name<'_> {
    match name {
        ContainerRef::Label(label) => Name::Label(label),
        ContainerRef::Uuid(uuid) => Name::Uuid(uuid),
    }
}

pub(crate) fn value(reply: message::Reply) -> Option<Option<Vec<u8>>> {
    match reply {
        message::Reply::Value(value) => Some(value),
        _ => None,
    }
}

pub(crate) fn names(reply: message::Reply) -> Option<Vec<String>> {
    match reply {
        message::Reply::Names(names) => Some(names),
        _ => None,
    }
}

impl Metadata for Remote {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.ask(PoolRequest::Metadata(MetadataRequest::Get(name)), value)
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.ask(PoolRequest::Metadata(MetadataRequest::Set(changes.to_vec())), done)
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.ask(PoolRequest::Metadata(MetadataRequest::List(prefix)), names)
    }
}

impl Pool for Remote {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.ask(PoolRequest::Info, |reply| match reply {
            message::Reply::Pool(info) => Some(info),
            _ => None,
        })
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        // The client draws the UUID, so that a request that is sent again makes the same container.
        let uuid = match new.uuid.map_or_else(esker_os::random_uuid, Ok::<_, Error>) {
            Ok(uuid) => uuid,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let request = PoolRequest::Create {
            label: new.label,
            uuid,
            checksum: new.checksum,
            metadata: new.metadata.to_vec(),
            first_oid: new.first_oid,
        };
        self.ask(request, |reply| match reply {
            message::Reply::Container(info) => Some(info),
            _ => None,
        })
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        let link = Arc::clone(&self.link);
        self.ask(PoolRequest::Open(name_of(name), mode), |reply| match reply {
            message::Reply::Opened(handle, info) => {
                Some(Box::new(Opened { link, handle, info }) as Box<dyn OpenContainer>)
            }
            _ => None,
        })
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.ask(PoolRequest::Destroy(name_of(name), force), done)
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.ask(PoolRequest::List, |reply| match reply {
            message::Reply::Containers(containers) => Some(containers),
            _ => None,
        })
    }
}
