use ruststream_kafka_cluster::Cluster;
use std::time::Instant;
fn t<T>(w: &str, f: impl FnOnce() -> T) -> T {
    let b = Instant::now();
    let r = f();
    println!("{w} {:?}", b.elapsed());
    r
}
fn main() {
    for n in [1, 3] {
        let c = t(&format!("start {n}"), || Cluster::start(n).unwrap());
        t("topic", || c.create_topic("a", 4, n as i32).unwrap());
        t("add", || c.add_partitions("a", 6).unwrap());
        t("delete", || c.delete_topic("a").unwrap());
        t("kill", || c.kill(1).unwrap());
        if n > 1 {
            t("topic", || c.create_topic("b", 4, 2).unwrap());
        }
        t("restart", || c.restart(1).unwrap());
        t("term", || c.terminate(1).unwrap());
        t("restart", || c.restart(1).unwrap());
        if n == 3 {
            println!("{}", std::fs::read_to_string(c.node(1).unwrap().log()).unwrap());
        }
        t("drop", || drop(c));
    }
}
