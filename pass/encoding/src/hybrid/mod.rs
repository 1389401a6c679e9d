//! Hybrid encoding: edges that need no update, since the stack offset tells the contexts apart (the paper,
//! §6, Algorithm 4).
//!
//! The *stack offset* of a function's activation is the distance from where its sub-path's first activation
//! begins to where it begins itself: the sum of the *frame offsets* of the calls between. A program knows it
//! without work. So two contexts of a function may share an id if their stack offsets differ, and an in-edge
//! may add nothing where the contexts that it brings in differ from those of the other in-edges in id or
//! stack offset. With recursion stack offsets count from the beginning of the sub-path, whose dummy in-edge
//! has id 0 and stack offset 0.
//!
//! The paper keeps, for each function, the stack offsets of the contexts with id 0 (`ImCC`), and assumes
//! nothing of those of other ids. Then an edge whose caller has other ids can be free for id 0 only, and must
//! test for that (case (c) of its Figure 6). Here a function has a few *blocks*, each a range of ids with the
//! stack offsets that occur with them; the first is `ImCC`. With more than that one, edges of case (c) turn
//! out to be free without a test.
//!
//! Functions have offsets as well ([`Encoding::offset`](crate::Encoding::offset)), which make a forest of
//! edges free whatever their values are. So an edge that closes a cycle with edges of the forest gets the
//! value that makes it free, too, if it causes no conflict; else 0, so that others may become free later, if
//! that causes none. Ids must tell whether they are 0 where a test is made, so this does not go together with
//! tests.
//!
//! Numbers of contexts are those of [`Encoding`](crate::Encoding). An edge keeps its addition value or gets a
//! smaller one.
//!
//! The rest of the crate meets this folder in two places: [`Hybrid::apply`] makes an encoding do what the
//! hybrid one does, and [`SubPaths`](crate::decode::SubPaths) decodes either.

pub(crate) mod decode;
mod edge_code;
mod encode;
mod encoding;
mod paths;
mod region;
mod stack;

pub use edge_code::{HybridCode, HybridOptions};
pub use encode::hybrid;
pub use encoding::Hybrid;
pub use stack::Stack;
