//! Connections over fast networks. Client and engine connect over TCP as always, authenticate, exchange the addresses
//! of their endpoints, and continue there. The TCP connection stays open: when it ends, the other side has died.
//!
//! Both sides send the same stream of frames. It is cut into *pieces*, each a message of libfabric with a header of its
//! own. `docs/wire.md` draws them.

mod driver;
mod flow;
mod incoming;
mod libfabric;
mod limits;
mod outgoing;
mod piece;
mod setup;
mod stream;
mod window;

pub use driver::LINGER;
pub use libfabric::{VARIABLE, check_library, is_usable};
pub use limits::{LONG_COUNT, LONG_LEN, SHORT_COUNT, SHORT_LEN};
pub use setup::{EndpointOptions, Frames, accept, connect};
pub use stream::{Reading, Writing};
