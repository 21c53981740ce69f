//! Memory that this process can still allocate.

use std::fs::read_to_string;
use std::path::Path;

/// Returns the number of bytes that this process can still allocate: the available memory of the machine, or what the limit of
/// its container leaves if that is less. `None` on systems without `/proc/meminfo`.
pub fn available_memory() -> Option<u128> {
    let free = meminfo(&read_to_string("/proc/meminfo").ok()?)?;
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(least_of_groups(Path::new("/sys/fs/cgroup"), &own).map_or(free, |left| left.min(free)))
}

/// Returns the smallest number of bytes left by the control group of this process and by the groups above it, up to `root`.
/// `own` is the content of `/proc/self/cgroup`, where version 2 has a line such as `0::/user.slice/job`.
fn least_of_groups(root: &Path, own: &str) -> Option<u128> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let groups = Path::new(own).ancestors().map(|group| root.join(group));
    groups.filter_map(|group| group_memory(&group)).min()
}

fn meminfo(text: &str) -> Option<u128> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u128 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the number of bytes that the limit of one control group (version 2, else version 1) leaves. The group counts cached
/// file pages as used although the system can reclaim them, so they are added back.
fn group_memory(root: &Path) -> Option<u128> {
    let number = |name: &str| read_to_string(root.join(name)).ok()?.trim().parse::<u128>().ok();
    let (limit, used, statistics) = match number("memory.max") {
        Some(limit) => (limit, number("memory.current")?, "memory.stat"),
        None => {
            (number("memory/memory.limit_in_bytes")?, number("memory/memory.usage_in_bytes")?, "memory/memory.stat")
        }
    };
    let statistics = read_to_string(root.join(statistics)).unwrap_or_default();
    let files = statistics.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<u128>().ok());
    Some(limit.saturating_sub(used.saturating_sub(files.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_leaves_its_limit_minus_its_use() {
        assert_eq!(meminfo("MemTotal: 9 kB\nMemAvailable:    5 kB\n"), Some(5 * 1024));
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
        assert_eq!(group_memory(place.path()), None);
        write("memory.max", "max\n");
        assert_eq!(group_memory(place.path()), None, "no limit");
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 500\ninactive_file 150\n");
        assert_eq!(group_memory(place.path()), Some(450));
        std::fs::remove_file(place.path().join("memory.max")).unwrap();
        std::fs::create_dir(place.path().join("memory")).unwrap();
        write("memory/memory.limit_in_bytes", "100\n");
        write("memory/memory.usage_in_bytes", "120\n");
        assert_eq!(group_memory(place.path()), Some(0));
    }

    #[test]
    fn the_tightest_group_wins() {
        let place = tempfile::tempdir().unwrap();
        let job = place.path().join("slice/job");
        std::fs::create_dir_all(&job).unwrap();
        let limit = |folder: &Path, limit: &str| {
            std::fs::write(folder.join("memory.max"), limit).unwrap();
            std::fs::write(folder.join("memory.current"), "10").unwrap();
        };
        limit(&job, "max");
        limit(&place.path().join("slice"), "110");
        limit(place.path(), "1010");
        assert_eq!(least_of_groups(place.path(), "0::/slice/job\n"), Some(100));
        assert_eq!(least_of_groups(place.path(), "0::/\n"), Some(1_000));
        assert_eq!(least_of_groups(place.path(), ""), Some(1_000));
    }
}
