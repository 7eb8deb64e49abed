import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * A broker's end of two logins, as their clouds do it. Amazon's: the token is a presigned request, and its signature
 * (Signature Version 4) is computed anew from the secret key, which options `secret_KEYID` of the listener's JAAS
 * entry give. Google's: three parts, the last of which is an access token that option `google` names. What was let in
 * is told in the log, by who and when it was signed, and so is what was not.
 */
public class TokenChecks implements AuthenticateCallbackHandler {
    private static final DateTimeFormatter TIME =
        DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);

    private record Login(String value, Set<String> scope, long lifetimeMs, String principalName, Long startTimeMs)
            implements OAuthBearerToken { }

    private static class Refused extends Exception {
        Refused(String why) {
            super(why);
        }
    }

    private Map<String, ?> options = Map.of();

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        options = entries.get(0).getOptions();
    }

    @Override
    public void close() { }

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerValidatorCallback asked) {
                try {
                    OAuthBearerToken found = check(asked.tokenValue());
                    say("let in " + found.principalName() + " signed " + found.startTimeMs());
                    asked.token(found);
                } catch (Refused | RuntimeException why) {
                    say("refused: " + why.getMessage());
                    asked.error("invalid_token", null, null);
                }
            } else if (callback instanceof OAuthBearerExtensionsValidatorCallback asked) {
                asked.inputExtensions().map().keySet().forEach(asked::valid);
            } else {
                throw new UnsupportedCallbackException(callback);
            }
        }
    }

    private static void say(String what) {
        System.out.println("TokenChecks " + System.currentTimeMillis() + " " + what);
    }

    private OAuthBearerToken check(String token) throws Refused {
        return token.contains(".") ? google(token) : amazon(token);
    }

    private OAuthBearerToken google(String token) throws Refused {
        String[] parts = token.split("\\.");
        expect(parts.length == 3, "three parts");
        expect(text(parts[0]).replace(" ", "").contains("\"alg\":\"GOOG_OAUTH2_TOKEN\""), "Google's algorithm");
        String claims = text(parts[1]).replace(" ", "");
        expect(text(parts[2]).equals(options.get("google")), "an access token that Google gave");
        long until = (long) (1000 * Double.parseDouble(claims.replaceAll(".*\"exp\":([0-9.]+).*", "$1")));
        String who = claims.replaceAll(".*\"sub\":\"([^\"]+)\".*", "$1");
        expect(until > System.currentTimeMillis(), "a time to come");
        return new Login(token, Set.of(), until, who, System.currentTimeMillis());
    }

    private OAuthBearerToken amazon(String token) throws Refused {
        URI asked = URI.create(text(token));
        Map<String, String> query = new TreeMap<>();
        for (String pair : asked.getRawQuery().split("&")) {
            String[] parts = pair.split("=", 2);
            query.put(URLDecoder.decode(parts[0], StandardCharsets.UTF_8),
                      URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
        }
        expect("kafka-cluster:Connect".equals(query.get("Action")), "the action kafka-cluster:Connect");
        expect(query.get("User-Agent").contains("aws-msk-iam-sasl-signer-python"), "a user agent");
        String[] scope = query.get("X-Amz-Credential").split("/");
        expect(scope.length == 5 && scope[3].equals("kafka-cluster") && scope[4].equals("aws4_request"), "a scope");
        expect(scope[2].equals(options.get("region")), "region " + options.get("region"));
        expect(asked.getHost().equals("kafka." + scope[2] + ".amazonaws.com"), "MSK's host");
        Object secret = options.get("secret_" + scope[0]);
        expect(secret != null, "an access key that is known");
        Object session = options.get("session_" + scope[0]);
        expect(session == null || session.equals(query.get("X-Amz-Security-Token")), "that session's token");
        expect(signature(query, asked.getHost(), scope, secret.toString()).equals(query.get("X-Amz-Signature")),
               "a signature by that key");
        long signed = Instant.from(TIME.parse(query.get("X-Amz-Date"))).toEpochMilli();
        long until = signed + 1000 * Long.parseLong(query.get("X-Amz-Expires"));
        expect(until > System.currentTimeMillis(), "a time to come");
        return new Login(token, Set.of(), until, scope[0], signed);
    }

    private static String signature(Map<String, String> query, String host, String[] scope, String secret) {
        StringBuilder canonical = new StringBuilder();
        query.forEach((name, value) -> {
            // The library adds who it is once the rest is signed.
            if (!name.equals("X-Amz-Signature") && !name.equals("User-Agent")) {
                canonical.append(canonical.isEmpty() ? "" : "&").append(coded(name)).append("=").append(coded(value));
            }
        });
        String request = "GET\n/\n" + canonical + "\nhost:" + host + "\n\nhost\n" + hex(digest(""));
        String signed = "AWS4-HMAC-SHA256\n" + query.get("X-Amz-Date") + "\n"
            + String.join("/", scope[1], scope[2], scope[3], scope[4]) + "\n" + hex(digest(request));
        byte[] key = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
        for (String part : List.of(scope[1], scope[2], scope[3], scope[4], signed)) {
            key = mac(key, part);
        }
        return hex(key);
    }

    private static void expect(boolean is, String what) throws Refused {
        if (!is) {
            throw new Refused("expected " + what);
        }
    }

    private static String text(String coded) {
        return new String(Base64.getUrlDecoder().decode(coded), StandardCharsets.UTF_8);
    }

    private static String coded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static byte[] digest(String text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static byte[] mac(byte[] key, String text) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
