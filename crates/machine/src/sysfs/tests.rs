//! Machines as their kernels report them, and what the loader makes of them. Each one names where its numbers are from; what
//! is not from there is marked as assumed.
use super::archive::Tarball;
use super::*;
use std::io::Write;

/// A machine of equal nodes, by what its kernel would show.
struct Shape {
    nodes: usize,
    /// Further nodes of memory only.
    empty_nodes: usize,
    /// Of each node.
    cores: usize,
    threads: usize,
    /// CPUs that are the first thread of a core, one after the other, are these many nodes' at once; so those of caches.
    cores_of_cache: usize,
    /// A cache's list goes beyond its node: that of a package of these many nodes.
    nodes_of_cache: usize,
    /// The level of the last cache that is reported; 0: none is.
    level: usize,
    /// The threads of a core have successive numbers.
    is_together: bool,
    distance: fn(usize, usize) -> usize,
}

/// To be changed.
const PLAIN: Shape = Shape {
    nodes: 1,
    empty_nodes: 0,
    cores: 4,
    threads: 1,
    cores_of_cache: 4,
    nodes_of_cache: 1,
    level: 3,
    is_together: false,
    distance: |a, b| if a == b { 10 } else { 20 },
};

impl Shape {
    fn cores_of_all(&self) -> usize {
        self.nodes * self.cores
    }

    fn cpus(&self, cores: std::ops::Range<usize>) -> String {
        let number = |core: usize, thread: usize| match self.is_together {
            true => core * self.threads + thread,
            false => thread * self.cores_of_all() + core,
        };
        let cpus: BTreeSet<usize> =
            cores.flat_map(|core| (0..self.threads).map(move |thread| number(core, thread))).collect();
        write_cpu_list(cpus)
    }

    fn files(&self) -> Tarball {
        let mut files = BTreeMap::new();
        let mut put = |path: String, text: String| files.insert(path, text);
        put("cpu/online".into(), self.cpus(0..self.cores_of_all()));
        for node in 0..self.nodes + self.empty_nodes {
            let cores = node.min(self.nodes) * self.cores..(node + 1).min(self.nodes) * self.cores;
            put(format!("node/node{node}/cpulist"), self.cpus(cores));
            let row = (0..self.nodes + self.empty_nodes).map(|to| (self.distance)(node, to).to_string());
            put(format!("node/node{node}/distance"), row.collect::<Vec<_>>().join(" "));
        }
        for core in 0..self.cores_of_all() {
            let all = self.cpus(core..core + 1);
            let per_cache = self.cores_of_cache * self.nodes_of_cache;
            let first = core / per_cache * per_cache;
            let shared = self.cpus(first..first + per_cache);
            for cpu in read_cpu_list(&all).unwrap() {
                put(format!("cpu/cpu{cpu}/topology/core_cpus_list"), all.clone());
                // The first level's two caches, a core's own second one, and the last one.
                let caches = [
                    (1, "Data", &all),
                    (1, "Instruction", &all),
                    (2, "Unified", &all),
                    (3, "Unified", &shared),
                ];
                for (index, (level, kind, list)) in
                    caches.into_iter().filter(|(level, ..)| *level <= self.level).enumerate()
                {
                    let folder = format!("cpu/cpu{cpu}/cache/index{index}");
                    put(format!("{folder}/level"), level.to_string());
                    put(format!("{folder}/type"), kind.to_owned());
                    put(format!("{folder}/shared_cpu_list"), list.clone());
                }
            }
        }
        Tarball::from(files)
    }

    /// The groups' CPUs in the kernel's way of writing, and all else that the loader makes of it.
    fn groups(&self) -> (Vec<String>, Vec<crate::GroupOfCpus>, Sysfs) {
        let machine = read(&self.files()).unwrap();
        let places = machine.places();
        assert_eq!(places.warning, None);
        let all: BTreeSet<usize> = machine.locations.iter().map(|location| location.cpu).collect();
        assert_eq!(places.cpus(), all, "each CPU has its place");
        let groups = places.groups();
        for group in &groups {
            assert!(group.cores.iter().map(Vec::len).sum::<usize>() <= 64);
            assert!(group.cores.iter().all(|cpus| cpus.len() <= self.threads));
        }
        let lists = groups
            .iter()
            .map(|group| write_cpu_list(group.cores.iter().flatten().copied().collect::<BTreeSet<usize>>()));
        (lists.collect(), groups.clone(), machine)
    }
}

/// NVIDIA Grace CPU Superchip: two sockets of 72 cores without SMT, each a node with an L3. Source: lstopo in
/// open-mpi/hwloc issue 689. The distances are assumed.
const GRACE: Shape =
    Shape { nodes: 2, cores: 72, cores_of_cache: 72, distance: |a, b| if a == b { 10 } else { 40 }, ..PLAIN };

#[test]
fn grace_grace() {
    let (lists, groups, _) = GRACE.groups();
    // More than 64 cores at a cache make two groups of half of them.
    assert_eq!(lists, ["0-35", "36-71", "72-107", "108-143"]);
    assert_eq!(groups[0].near[0], 1, "the other half of the cache before the other socket");
    assert_eq!(groups[3].near[0], 2);
    assert_eq!(groups[0].rings, [[0, 1], [2, 3]], "by node");
}

#[test]
fn gb200_has_32_nodes_without_cpus() {
    // As Grace-Grace; the memory of each of four GPUs is eight more nodes, for its possible parts (sched-ext/scx pull request
    // 2325; bytedance/xpu-perf issue 129 has the list for one socket and one GPU). Their distances are assumed.
    let shape = Shape { empty_nodes: 32, distance: |a, b| if a == b { 10 } else { 40 + a.max(b) }, ..GRACE };
    let (lists, groups, machine) = shape.groups();
    assert_eq!(machine.nodes_without_cpus(), (2..34).collect::<Vec<_>>());
    assert_eq!(machine.distances[&1][&33], 73);
    assert_eq!(lists, ["0-35", "36-71", "72-107", "108-143"]);
    assert_eq!(groups[0].near.len(), 3, "only nodes with CPUs are searched");
}

#[test]
fn two_sockets_of_turin() {
    // EPYC 9965: 192 cores of two threads, 384 MB of L3 in 12 caches; EPYC 9755: 128 cores, 16 caches (AMD, EPYC 9005 data
    // sheet). One node a socket; distance 32 (numactl -H of two EPYC 9375F, egandro/proxmox-cpu-affinity issue 58).
    let distance = |a, b| if a == b { 10 } else { 32 };
    let dense = Shape { nodes: 2, cores: 192, threads: 2, cores_of_cache: 16, distance, ..PLAIN };
    let (lists, groups, _) = dense.groups();
    assert_eq!(lists.len(), 24);
    assert_eq!((lists[0].as_str(), lists[23].as_str()), ("0-15,384-399", "368-383,752-767"));
    assert_eq!(groups[0].cores[3], [3, 387], "a core's threads are siblings");
    assert!(groups[12].near[..11].iter().all(|&near| near > 12), "first the caches of its socket");
    let classic = Shape { cores: 128, cores_of_cache: 8, ..dense };
    let (lists, groups, _) = classic.groups();
    assert_eq!((lists.len(), lists[31].as_str()), (32, "248-255,504-511"));
    assert_eq!(groups[31].rings, [(16..32).collect::<Vec<_>>(), (0..16).collect()]);
}

#[test]
fn sapphire_rapids_with_clusters_and_their_memory() {
    // Xeon Max 9468 in SNC-4 mode with flat HBM: eight nodes of 12 cores, eight of memory only (numactl -H in
    // oneapi-src/unified-memory-framework issue 1289). The L3 is the socket's: its list spans four nodes. Distances within
    // and between sockets: 12 and 21 are usual, 13 and 23 to HBM (argonne-lcf/user-guides pull request 756); assumed here.
    let shape = Shape {
        nodes: 8,
        empty_nodes: 8,
        cores: 12,
        threads: 2,
        cores_of_cache: 12,
        nodes_of_cache: 4,
        distance: |a, b| match (a == b, a % 8 / 4 == b % 8 / 4, a < 8 && b < 8) {
            (true, ..) => 10,
            (_, true, true) => 12,
            (_, false, true) => 21,
            (_, true, false) => 13,
            (_, false, false) => 23,
        },
        ..PLAIN
    };
    let (lists, groups, machine) = shape.groups();
    assert_eq!(lists.len(), 8, "a group does not go beyond its node, as its cache does");
    assert_eq!((lists[0].as_str(), lists[7].as_str()), ("0-11,96-107", "84-95,180-191"));
    assert_eq!(machine.nodes_without_cpus(), (8..16).collect::<Vec<_>>());
    assert_eq!(groups[5].rings, [vec![5], vec![4, 6, 7], vec![0, 1, 2, 3]]);
}

#[test]
fn ampere_one_reports_no_shared_cache() {
    // 192 cores without SMT, 2 MB of L2 each, one node (Ampere's data sheet). That its system-level cache is not reported as
    // a cache of CPUs is as on Ampere Altra (`lscpu -Je` in vllm-project/vllm pull request 39191: L1 and L2 only).
    let shape = Shape { cores: 192, cores_of_cache: 1, level: 2, ..PLAIN };
    let (lists, groups, machine) = shape.groups();
    assert_eq!(lists, ["0-63", "64-127", "128-191"]);
    assert_eq!(groups[0].rings, [vec![0, 1, 2]], "all in one node, equally near");
    assert!(machine.locations.iter().all(|at| at.core == at.cpu && at.llc == at.cpu));
}

#[test]
fn knights_landing() {
    // Xeon Phi 7210: 64 cores of four threads, two cores share an L2, no L3 (Intel, 7210 data sheet). All-to-all: one node.
    // SNC-4: four nodes of 16 cores, and flat MCDRAM four of memory only, which seems far (open-mpi/hwloc issue 209); the
    // distances are assumed.
    let tiles = |shape: &Shape| {
        let mut files = shape.files();
        for core in 0..64 {
            let tile = core / 2 * 2;
            for cpu in read_cpu_list(&shape.cpus(core..core + 1)).unwrap() {
                files.put(&format!("cpu/cpu{cpu}/cache/index2/shared_cpu_list"), &shape.cpus(tile..tile + 2));
            }
        }
        read(&files).unwrap().places().groups()
    };
    let all_to_all = Shape { cores: 64, threads: 4, level: 2, ..PLAIN };
    let groups = tiles(&all_to_all);
    assert_eq!(groups.len(), 32, "a tile of two cores and eight threads is a group");
    assert_eq!(groups[0].cores, [vec![0, 64, 128, 192], vec![1, 65, 129, 193]]);
    assert_eq!(groups[0].near, (1..15).collect::<Vec<_>>(), "the nearest 14");
    let clusters = Shape {
        nodes: 4,
        empty_nodes: 4,
        cores: 16,
        distance: |a, b| match (a == b, a < 4 && b < 4, a % 4 == b % 4) {
            (true, ..) => 10,
            (_, true, _) => 21,
            (_, _, true) => 31,
            _ => 41,
        },
        ..all_to_all
    };
    let groups = tiles(&clusters);
    assert_eq!(groups.len(), 32);
    assert_eq!(groups[8].rings, [(8..16).collect::<Vec<_>>(), (0..8).chain(16..32).collect()]);
}

#[test]
fn as_many_as_policies_take() {
    // 4,096 CPUs, 128 nodes, 512 caches: no such machine is known.
    let shape = Shape { nodes: 128, cores: 16, threads: 2, cores_of_cache: 4, ..PLAIN };
    let (lists, groups, machine) = shape.groups();
    assert_eq!((machine.locations.len(), lists.len()), (4096, 512));
    assert_eq!(lists[511], "2044-2047,4092-4095");
    assert!(groups.iter().all(|group| group.near.len() == 14));
    // Eight groups share a bit of the machine's word, and so two nodes do.
    assert_eq!(groups[9].rings[0], (8..16).collect::<Vec<_>>());
    assert_eq!(groups[9].rings.iter().map(Vec::len).sum::<usize>(), 512);
}

#[test]
fn sparse_numbers() {
    // CPUs and nodes that are missing between others, as after a failure of a socket or with `possible_cpus`.
    let files = Tarball::from([
        ("cpu/online", "3,9,1000-1001"),
        ("cpu/cpu3/topology/core_cpus_list", "3,9"),
        ("cpu/cpu9/topology/core_cpus_list", "3,9"),
        ("cpu/cpu1000/topology/thread_siblings_list", "1000"),
        ("cpu/cpu1001/topology/thread_siblings_list", "1001"),
        ("node/node2/cpulist", "3,9"),
        ("node/node2/distance", "10 21"),
        ("node/node10/cpulist", "1000-1001"),
        ("node/node10/distance", "21 10"),
    ]);
    let machine = read(&files).unwrap();
    assert_eq!(machine.distances[&2], [(2, 10), (10, 21)].into());
    let groups = machine.places().groups();
    assert_eq!(groups[0].cores, [[3, 9]]);
    assert_eq!(groups[1].cores, [[1000], [1001]]);
}

#[test]
fn core_numbers_repeat_in_each_cluster() {
    // As Arm systems described by device trees report it: `core_id` counts within a cluster. It is not used.
    let mut shape = Shape { cores: 8, cores_of_cache: 4, ..PLAIN }.files();
    for cpu in 0..8 {
        shape.put(&format!("cpu/cpu{cpu}/topology/core_id"), &(cpu % 4).to_string());
        shape.put(&format!("cpu/cpu{cpu}/topology/cluster_id"), &(cpu / 4).to_string());
    }
    let groups = read(&shape).unwrap().places().groups();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[1].cores, [[4], [5], [6], [7]], "eight cores of one thread");
}

#[test]
fn distances_that_are_not_known_are_equal() {
    // As hwloc's test of a node that is offline has it: one node, and two distances.
    for text in ["21 10 32", "10", "far", ""] {
        let mut files = GRACE.files();
        files.put("node/node1/distance", text);
        let machine = read(&files).unwrap();
        assert_eq!((machine.distances[&0].len(), machine.distances[&1].len()), (2, 0), "{text}");
        assert_eq!(machine.places().groups()[3].near, [2, 0, 1], "its own node is nearest all the same");
    }
}

#[test]
fn without_caches_and_nodes() {
    let bare = Tarball::from([
        ("cpu/online", "0-1"),
        ("cpu/cpu0/topology/core_cpus_list", "0"),
        ("cpu/cpu1/topology/core_cpus_list", "1"),
    ]);
    let machine = read(&bare).unwrap();
    assert!(machine.locations.iter().all(|at| (at.llc, at.node) == (0, 0)));
    assert_eq!(machine.places().groups()[0].cores, [[0], [1]]);
}

#[test]
fn what_is_not_consistent_is_refused() {
    let without = |path: &str| {
        let mut files = GRACE.files();
        files.remove(path);
        read(&files).unwrap_err()
    };
    assert_eq!(without("cpu/online"), "cpu/online is missing");
    assert_eq!(without("node/node1/distance"), "node/node1/distance is missing");
    assert_eq!(without("cpu/cpu5/topology/core_cpus_list"), "cpu/cpu5/topology/core_cpus_list is missing");
    let with = |path: &str, text: &str| {
        let mut files = GRACE.files();
        files.put(path, text);
        read(&files).unwrap_err()
    };
    assert_eq!(with("cpu/online", ""), "cpu/online has no CPU");
    assert_eq!(with("cpu/online", "0-\u{1b}[31m"), r"cpu/online: `0-\u{1b}[31m` is not a list of CPUs");
    assert_eq!(with("cpu/online", "0-200"), "CPU 144 is in no node");
    assert_eq!(with("node/node1/cpulist", "71-143"), "CPU 71 is in nodes 0 and 1");
    assert!(with("cpu/cpu7/topology/core_cpus_list", "8").ends_with("`8` lacks CPU 7"));
    let apart = with("cpu/cpu7/topology/core_cpus_list", "7-8");
    assert_eq!(apart, "CPUs 7 and 8 do not agree on which CPUs are of their core");
    assert!(with("cpu/cpu7/cache/index3/level", "three").contains("`three` is no number"));
}

/// A tarball as tar makes it of sysfs: each file a page, filled up with zeros.
fn tar_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut page = text.as_bytes().to_vec();
        page.resize(4096, 0);
        let mut header = tar::Header::new_gnu();
        // `set_path` would refuse what an attacker writes.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(4096);
        header.set_cksum();
        builder.append(&header, page.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn open(bytes: &[u8]) -> Result<Sysfs, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let path = file.path().display().to_string();
    Sysfs::of_tarball(file.path()).map_err(|error| error.to_string().replace(&path, "FILE"))
}

const SMALL: [(&str, &str); 5] = [
    ("sys/devices/system/cpu/online", "0\n"),
    ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
    ("sys/devices/system/cpu/cpu0/uevent", "\n"),
    ("sys/devices/system/node/node0/cpulist", "0\n"),
    ("sys/devices/system/node/node0/distance", "10\n"),
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn tarballs_with_any_folder_above() {
    let plain = tar_of(&SMALL);
    let expected = open(&plain).unwrap();
    assert_eq!(expected.locations.len(), 1);
    assert_eq!(open(&gzip(&plain)).unwrap(), expected);
    for above in ["", "./", "/sys/devices/system/", "./topology-of-mine/sys/devices/system/"] {
        let moved = SMALL.map(|(path, text)| (path.replace("sys/devices/system/", above), text));
        let moved: Vec<(&str, &str)> = moved.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        assert_eq!(open(&tar_of(&moved)).unwrap(), expected, "{above}");
    }
}

#[test]
fn bad_tarballs() {
    let whole = tar_of(&SMALL);
    let packed = gzip(&whole);
    for (bytes, what) in [
        (&b""[..], "has no file of /sys/devices/system/cpu"),
        (&b"#!/bin/sh\necho no tarball\n"[..], "is not a tarball, or it is damaged; see"),
        (&[b'x'; 2048][..], "is not a tarball"),
        (&whole[..700], "FILE: it ends"),
        (&packed[..packed.len() / 2], "ends too early"),
        (&gzip(b"hello")[..], "is not a tarball"),
        (b"\xfd7zXZ\0and more", "not by gzip"),
        (b"BZh91AY", "not by gzip"),
        (&tar_of(&[("../../etc/cpu/online", "0")])[..], "with `..`"),
        (&tar_of(&[("etc/passwd", "root")])[..], "has no file of /sys/devices/system/cpu"),
        (&tar_of(&SMALL[..1])[..], "cpu/cpu0/topology/core_cpus_list is missing"),
    ] {
        let error = open(bytes).unwrap_err();
        assert!(error.starts_with("FILE: ") && error.contains(what), "{what}: {error}");
    }
    let mut huge = tar::Header::new_gnu();
    huge.set_path("sys/devices/system/cpu/online").unwrap();
    huge.set_size(1 << 40);
    huge.set_cksum();
    assert!(open(huge.as_bytes()).unwrap_err().contains("larger than a file of /sys can be"));
    // A name of the next entry that does not end: it is skipped, whatever its size.
    let mut name = tar::Header::new_gnu();
    name.set_entry_type(tar::EntryType::GNULongName);
    name.set_size(1 << 20);
    name.set_cksum();
    let long = [name.as_bytes(), &vec![b'a'; 1 << 20][..], &whole].concat();
    assert_eq!(open(&long).unwrap().locations.len(), 1);
    let mut bent = gzip(&whole);
    let middle = bent.len() / 2;
    bent[middle] ^= 0xff;
    assert!(open(&bent).is_err());
    assert!(Sysfs::of_tarball(Path::new("/no/such.tar")).unwrap_err().to_string().contains("No such file"));
    assert!(Sysfs::of_tarball(Path::new("/")).unwrap_err().to_string().contains("no regular file"));
}
