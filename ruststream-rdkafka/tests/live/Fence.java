import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * Takes the place of the only producer of partition 0 of a topic: writes a record with that one's id, and a later epoch.
 * Arguments: bootstrap servers, topic, payload.
 */
public class Fence {
    public static void main(String[] arguments) throws Exception {
        var servers = arguments[0];
        var partition = new TopicPartition(arguments[1], 0);
        ProducerIdAndEpoch taken;
        try (var admin = Admin.create(Map.<String, Object>of("bootstrap.servers", servers))) {
            var producers = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
            var own = producers.get(0);
            taken = new ProducerIdAndEpoch(own.producerId(), (short) (own.producerEpoch() + 1_000));
        }
        var serializer = "org.apache.kafka.common.serialization.StringSerializer";
        var settings = Map.<String, Object>of(
            "bootstrap.servers", servers, "key.serializer", serializer, "value.serializer", serializer);
        try (var producer = new KafkaProducer<String, String>(settings)) {
            // There is no public way. First, since it would replace what it is given, it gets an id of its own.
            producer.send(new ProducerRecord<>(partition.topic(), 1, null, arguments[2])).get();
            var field = KafkaProducer.class.getDeclaredField("transactionManager");
            field.setAccessible(true);
            var manager = field.get(producer);
            var set = manager.getClass().getDeclaredMethod("setProducerIdAndEpoch", ProducerIdAndEpoch.class);
            set.setAccessible(true);
            set.invoke(manager, taken);
            producer.send(new ProducerRecord<>(partition.topic(), 0, null, arguments[2])).get();
        }
    }
}
