//! Numbers in the file: seven bits a byte, the lowest first, so that small numbers take little room.

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative: its sign is the lowest bit.
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, (number << 1 ^ number >> 63) as u64);
}

/// Takes a number from the front; `None`: there is none.
pub(crate) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes a number that may be negative.
pub(crate) fn take_signed(from: &mut &[u8]) -> Option<i64> {
    let number = take(from)?;
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::MAX / 2, u64::MAX];
        let signed = [0, 1, -1, 63, -64, -65, i64::MAX, i64::MIN];
        let mut out = Vec::new();
        numbers.iter().for_each(|&number| put(&mut out, number));
        signed.iter().for_each(|&number| put_signed(&mut out, number));
        let mut rest = &out[..];
        assert!(numbers.iter().all(|&number| take(&mut rest) == Some(number)));
        assert!(signed.iter().all(|&number| take_signed(&mut rest) == Some(number)));
        assert_eq!(take(&mut rest), None);
        assert_eq!(take(&mut &[0x80, 0x80][..]), None, "cut off");
    }
}
