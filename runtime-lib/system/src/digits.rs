//! Numbers as text, without allocation.

/// The decimal digits of a number.
pub struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    /// Those of this one.
    pub fn of(number: u64) -> Self {
        let mut decimal = Self { digits: [0; 20], start: 20 };
        let mut rest = number;
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return decimal;
            }
        }
    }

    /// The characters.
    pub fn text(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            assert_eq!(Decimal::of(number).text(), std::format!("{number}").as_bytes());
        }
    }
}
