//! Reads a kernel image: its release name, and the BTF of the kernel inside. On x86 it is a bzImage with a compressed
//! kernel in it, on arm64 an Image, which is the kernel's memory.
use super::btf::{self, Findings};
use crate::Arch;
use object::{Object, ObjectSection};
use std::io::Read;
use std::ops::Range;

/// Limit of an unpacked kernel, above that of any real one: a damaged image must not fill the memory.
const UNPACKED_LIMIT: u64 = 1 << 30;

/// An image with a valid header (the kernel's Documentation/arch/x86/boot.rst and Documentation/arch/arm64/booting.rst).
pub(super) struct Image<'a> {
    bytes: &'a [u8],
    payload: Range<usize>,
    /// The processor that it is for.
    pub arch: Arch,
    /// As `uname -r` will print it.
    pub release: String,
}

/// What stands before the release name in a kernel's memory, for its first message.
const BANNER: &[u8] = b"Linux version ";
/// A BTF header as far as it is always the same: magic, version, flags, length.
const BTF_HEADER: &[u8] = &[0x9f, 0xeb, 1, 0, 24, 0, 0, 0];

/// The places of `wanted` in `bytes`.
fn places<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> {
    memchr::memmem::find_iter(bytes, wanted)
}

impl<'a> Image<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        match bytes.get(0x38..0x3c) {
            Some(b"ARM\x64") => Self::parse_arm64(bytes),
            _ if bytes.get(4..8) == Some(b"zimg") => {
                Err("it is compressed for EFI: unpack it, or build arch/arm64/boot/Image".into())
            }
            _ => Self::parse_x86(bytes),
        }
    }

    /// The whole file is the kernel's memory.
    fn parse_arm64(bytes: &'a [u8]) -> Result<Self, String> {
        let release = places(bytes, BANNER).find_map(|at| {
            let text = bytes.get(at + BANNER.len()..)?.iter().copied();
            let name: Vec<u8> = text.take_while(|byte| byte.is_ascii_graphic()).take(128).collect();
            String::from_utf8(name).ok().filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        });
        let release = release.ok_or("it has no kernel release in it")?;
        Ok(Self { bytes, payload: 0..bytes.len(), arch: Arch::Arm64, release })
    }

    fn parse_x86(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.get(0x202..0x206) != Some(b"HdrS") {
            return Err("it has no boot header".into());
        }
        let half = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let cut = || "it is cut off".to_owned();
        // The payload fields exist since protocol 2.08, of 2008.
        if half(0x206).ok_or_else(cut)? < 0x208 {
            return Err("its boot protocol is older than 2.08".into());
        }
        let sectors = match bytes[0x1f1] {
            0 => 4,
            n => usize::from(n),
        };
        let text = usize::from(half(0x20e).ok_or_else(cut)?) + 0x200;
        let release: Vec<u8> = bytes
            .get(text..)
            .unwrap_or_default()
            .iter()
            .copied()
            .take_while(|b| b.is_ascii_graphic())
            .take(128)
            .collect();
        let release = String::from_utf8(release).unwrap_or_default();
        if release.is_empty() || text == 0x200 {
            return Err("it has no kernel release in it".into());
        }
        let start = (sectors + 1) * 512 + word(0x248).ok_or_else(cut)? as usize;
        let payload = start..start + word(0x24c).ok_or_else(cut)? as usize;
        if payload.is_empty() || payload.end > bytes.len() {
            return Err(cut());
        }
        Ok(Self { bytes, payload, arch: Arch::X86, release })
    }

    /// Findings in the BTF inside, or why it cannot be read.
    pub fn inspect_btf(&self) -> Result<Findings, String> {
        if self.arch == Arch::Arm64 {
            return btf::inspect(self.btf_in_memory().ok_or("built without CONFIG_DEBUG_INFO_BTF")?);
        }
        let vmlinux = self.unpack()?;
        let elf = object::File::parse(&*vmlinux).map_err(|e| format!("kernel inside: {e}"))?;
        let section = elf.section_by_name(".BTF").ok_or("built without CONFIG_DEBUG_INFO_BTF")?;
        btf::inspect(section.data().map_err(|e| format!("kernel inside: {e}"))?)
    }

    /// The BTF, by its header: the kernel's memory has no table of sections.
    fn btf_in_memory(&self) -> Option<&'a [u8]> {
        places(self.bytes, BTF_HEADER).find_map(|at| {
            let number = |offset: usize| {
                let bytes = self.bytes.get(at + offset..at + offset + 4)?;
                usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
            };
            let [types_at, types, strings_at, strings] = [number(8)?, number(12)?, number(16)?, number(20)?];
            let end = BTF_HEADER.len() + 16 + strings_at + strings;
            (types_at == 0 && types > 0 && strings_at == types)
                .then(|| self.bytes.get(at..at + end))
                .flatten()
        })
    }

    /// Decompresses the kernel proper.
    fn unpack(&self) -> Result<Vec<u8>, String> {
        let packed = &self.bytes[self.payload.clone()];
        let mut vmlinux = Vec::new();
        // The payload ends with four bytes of length that do not belong to the compressed stream;
        // both decoders stop at the end of the stream.
        let done = match packed {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => ruzstd::decoding::StreamingDecoder::new(packed)
                .map_err(|e| format!("zstd: {e}"))?
                .take(UNPACKED_LIMIT)
                .read_to_end(&mut vmlinux),
            [0x1f, 0x8b, ..] => {
                flate2::read::GzDecoder::new(packed).take(UNPACKED_LIMIT).read_to_end(&mut vmlinux)
            }
            [0xfd, b'7', b'z', b'X', b'Z', ..] => return Err("compressed with xz".into()),
            [0x02, 0x21, 0x4c, 0x18, ..] => return Err("compressed with lz4".into()),
            _ => return Err("compressed in a way unknown to us".into()),
        };
        done.map_err(|e| format!("cannot be decompressed: {e}"))?;
        Ok(vmlinux)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    /// A 64-bit ELF file with only a `.BTF` section.
    fn elf(btf: &[u8]) -> Vec<u8> {
        let names = b"\0.BTF\0.shstrtab\0";
        let (btf_at, names_at) = (64, 64 + btf.len());
        let sections_at = (names_at + names.len()).next_multiple_of(8);
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        for half in [2u16, 62] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1u32.to_le_bytes());
        for long in [0u64, 0, sections_at as u64] {
            file.extend(long.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for half in [64u16, 0, 0, 64, 3, 2] {
            file.extend(half.to_le_bytes());
        }
        file.extend(btf);
        file.extend(names);
        file.resize(sections_at + 64, 0);
        for (name, kind, at, len) in [(1u32, 1u32, btf_at, btf.len()), (6, 3, names_at, names.len())] {
            file.extend(name.to_le_bytes());
            file.extend(kind.to_le_bytes());
            for long in [0, 0, at as u64, len as u64, 0, 1, 0] {
                file.extend(long.to_le_bytes());
            }
            // sh_link and sh_info share the fifth long; sh_addralign and sh_entsize follow.
        }
        file
    }

    /// A bzImage of `release` whose payload is a gzip of an ELF file with this BTF.
    pub(in crate::kernel) fn bz_image(release: &str, btf: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&elf(btf)).unwrap();
        let mut packed = packed.finish().unwrap();
        packed.extend(1234u32.to_le_bytes());
        let mut image = vec![0; 3 * 512 + 16];
        image[0x1f1] = 2;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
        image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        let text = format!("{release} (someone@somewhere) #1 SMP\0");
        image[0x300..0x300 + text.len()].copy_from_slice(text.as_bytes());
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        image.extend(packed);
        image
    }

    #[test]
    fn header_and_btf_of_a_synthetic_image() {
        for malformed in [false, true] {
            let bytes = bz_image("6.18.15+deb13-cloud-amd64", &btf::tests::blob(malformed));
            let image = Image::parse(&bytes).unwrap();
            assert_eq!((image.release.as_str(), image.arch), ("6.18.15+deb13-cloud-amd64", Arch::X86));
            assert_eq!(image.inspect_btf().unwrap().malformed.len(), usize::from(malformed));
        }
    }

    /// An arm64 Image of `release` with this BTF, and with what only looks like either.
    pub(in crate::kernel) fn arm64_image(release: &str, btf: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 4096];
        image[..4].copy_from_slice(b"MZ@\xfa");
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        image.extend(b"Linux version %s\0");
        image.extend(BTF_HEADER);
        image.extend([0xff; 16]);
        image.extend(format!("Linux version {release} (someone@somewhere) #1 SMP\0").as_bytes());
        image.extend(btf);
        image.extend([0; 64]);
        image
    }

    #[test]
    fn release_and_btf_of_an_arm64_image() {
        for malformed in [false, true] {
            let bytes = arm64_image("6.18.15+deb13-cloud-arm64", &btf::tests::blob(malformed));
            let image = Image::parse(&bytes).unwrap();
            assert_eq!((image.release.as_str(), image.arch), ("6.18.15+deb13-cloud-arm64", Arch::Arm64));
            assert_eq!(image.inspect_btf().unwrap().malformed.len(), usize::from(malformed));
        }
        let without = arm64_image("6.18", b"");
        assert!(Image::parse(&without).unwrap().inspect_btf().unwrap_err().contains("DEBUG_INFO_BTF"));
        assert!(Image::parse(b"MZ\0\0zimg").err().unwrap().contains("compressed for EFI"));
        assert!(Image::parse(&without[..4096]).err().unwrap().contains("no kernel release"));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(Image::parse(b"").is_err());
        assert!(Image::parse(&[0x7f; 4096]).is_err());
        let good = bz_image("6.18", &btf::tests::blob(false));
        for end in 0..good.len() {
            assert!(Image::parse(&good[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn unknown_compression_is_a_reason() {
        let mut bytes = bz_image("6.18", &btf::tests::blob(false));
        let payload = 3 * 512 + 16;
        bytes[payload..payload + 5].copy_from_slice(b"\xfd7zXZ");
        assert_eq!(Image::parse(&bytes).unwrap().inspect_btf().unwrap_err(), "compressed with xz");
    }
}
