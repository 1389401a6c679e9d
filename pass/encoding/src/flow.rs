//! The control flow of a function, as its code has it.

/// A basic block of a function.
#[derive(Clone, Debug)]
pub struct FlowBlock {
    /// Expected executions for one of the function.
    pub frequency: f64,
    /// The successor edges, in the order of the code.
    pub ways: Vec<Way>,
}

/// An edge from the end of one block to the beginning of another.
#[derive(Clone, Debug)]
pub struct Way {
    /// The number of the other block.
    pub to: u32,
    /// The probability of the edge at the end of the block.
    pub probability: f64,
    /// True if code can be inserted on the edge.
    pub can_be_split: bool,
}
