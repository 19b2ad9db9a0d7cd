import java.util.ArrayList;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Sends a record for each key, and prints the partitions. Arguments: bootstrap servers, topic, keys. */
public class Placement {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (var producer = new KafkaProducer<String, String>(settings)) {
            var sent = new ArrayList<java.util.concurrent.Future<org.apache.kafka.clients.producer.RecordMetadata>>();
            for (var key : Arrays.asList(arguments).subList(2, arguments.length)) {
                sent.add(producer.send(new ProducerRecord<>(arguments[1], key, "")));
            }
            for (var metadata : sent) {
                System.out.println(metadata.get().partition());
            }
        }
    }
}
