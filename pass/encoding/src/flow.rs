//! The flow of control in a function: a fact of its code, whatever is done with it.

/// A basic block of a function.
#[derive(Clone, Debug)]
pub struct FlowBlock {
    /// Expected executions for one of the function.
    pub frequency: f64,
    /// Where control goes from its end, in the order of the code.
    pub ways: Vec<Way>,
}

/// A way from the end of one block to the beginning of another.
#[derive(Clone, Debug)]
pub struct Way {
    /// The number of the other block.
    pub to: u32,
    /// How likely control takes it at the end of the block.
    pub probability: f64,
    /// True if code can be put on the way.
    pub can_be_split: bool,
}
