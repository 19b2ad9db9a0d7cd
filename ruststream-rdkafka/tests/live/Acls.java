import java.util.ArrayList;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Adds or removes rules for every user. Arguments: bootstrap servers, `add` or `remove`, rules as in `DENY TOPIC orders WRITE`. */
public class Acls {
    public static void main(String[] arguments) throws Exception {
        var rules = new ArrayList<AclBinding>();
        for (var rule : Arrays.asList(arguments).subList(2, arguments.length)) {
            var words = rule.split(" ");
            var resource = new ResourcePattern(ResourceType.fromString(words[1]), words[2], PatternType.LITERAL);
            var entry = new AccessControlEntry(
                "User:*", "*", AclOperation.fromString(words[3]), AclPermissionType.fromString(words[0]));
            rules.add(new AclBinding(resource, entry));
        }
        try (var admin = Admin.create(Map.<String, Object>of("bootstrap.servers", arguments[0]))) {
            if (arguments[1].equals("add")) {
                admin.createAcls(rules).all().get();
            } else {
                admin.deleteAcls(rules.stream().map(AclBinding::toFilter).toList()).all().get();
            }
        }
    }
}
