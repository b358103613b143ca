//! A recording without names.
use crate::{Recording, Role};
use sha2::{Digest, Sha256};

impl Recording {
    /// Takes out what says whose tasks they are: names become hashes, the same for the same name, with a random salt
    /// that is not kept. Numbers of processes and the command are dropped. Names of the kernel's threads stay.
    pub fn make_anonymous(&mut self) {
        let salt: [u8; 32] = rand::random();
        for task in &mut self.tasks {
            task.pid = None;
            if task.role == Role::Load {
                let hash = Sha256::new().chain_update(salt).chain_update(&task.name).finalize();
                task.name =
                    hash[..4].iter().fold("task-".to_owned(), |name, byte| name + &format!("{byte:02x}"));
            }
        }
        self.header.command = None;
        self.header.is_anonymous = true;
    }
}

#[cfg(test)]
mod tests {
    use crate::lives::tests::{recording, task};

    #[test]
    fn equal_names_stay_equal_and_nothing_else_does() {
        let mut one = recording(vec![task("secret"), task("secret"), task("other")], vec![]);
        one.header.command = Some("secret --password x".into());
        let mut two = one.clone();
        one.make_anonymous();
        two.make_anonymous();
        assert_eq!(one.tasks[0].name, one.tasks[1].name);
        assert_ne!(one.tasks[0].name, one.tasks[2].name);
        assert_ne!(one.tasks[0].name, two.tasks[0].name, "another salt");
        let mut file = Vec::new();
        one.write_to(&mut file).unwrap();
        let text = format!("{:?}{one:?}", String::from_utf8_lossy(&file));
        assert!(!text.contains("secret") && !text.contains("4242"), "{text}");
    }
}
