/* What Python is too slow for while a long topic is read for the first time: taking records out of librdkafka's
 * messages, and replacing values of positions that are known. Everything else is Python's, as is all that is not the
 * common case. Knows neither Python's nor librdkafka's headers: who calls hands over the functions that it needs.
 *
 * agent/common/native/__init__.py has the same structures; agent/core/wire/commit_table.py says how values are kept.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* rd_kafka_message_t */
typedef struct {
    int32_t err;
    void *topic;
    int32_t partition;
    uint8_t *payload;
    size_t len;
    uint8_t *key;
    size_t key_len;
    int64_t offset;
    void *private;
} message;

typedef struct {
    int64_t (*consume_batch_queue)(void *queue, int timeout_ms, message **out, size_t size);
    message *(*consume_queue)(void *queue, int timeout_ms);
    void (*message_destroy)(message *it);
    int64_t (*message_timestamp)(const message *it, int *type);
    int32_t (*message_leader_epoch)(const message *it);
} client;

/* Consecutive records of one partition, in columns of `room` places each. `data` has their keys and values. */
typedef struct {
    int32_t partition, error;
    int64_t count, room, error_offset;
    int64_t *offsets, *times;
    int32_t *epochs;
    uint64_t *hashes;
    uint64_t *keys, *values; /* where in `data` they begin */
    int32_t *key_lengths, *value_lengths; /* -1: there is none */
    int32_t *others;                      /* which records are no commits, by what their keys begin with */
    uint8_t *data;
    uint64_t used, size;
    int64_t others_count, repeated;
    int32_t in_time_order, has_failed;
} run;
_Static_assert(sizeof(run) == 152, "another interface");

/* A run ends when its keys and values take so much: each record may have up to 32 MB. */
#define FULL (3 << 20)

/* `count` messages were taken from the queue, those before `next` into runs. */
typedef struct {
    client of;
    void *queue;
    int64_t count, next, size;
    message **messages;
    uint64_t seed[2];
    int64_t repeated;   /* so many last records of a run the next one of its partition begins with */
    run **last;         /* by partition */
    int32_t partitions;
} reader;

/* SipHash-1-3: keys are strangers', who must not choose which of them collide. */
#define ROTATE(x, by) (((x) << (by)) | ((x) >> (64 - (by))))
#define ROUND                                                                                                          \
    do {                                                                                                               \
        v0 += v1, v1 = ROTATE(v1, 13) ^ v0, v0 = ROTATE(v0, 32);                                                       \
        v2 += v3, v3 = ROTATE(v3, 16) ^ v2;                                                                            \
        v0 += v3, v3 = ROTATE(v3, 21) ^ v0;                                                                            \
        v2 += v1, v1 = ROTATE(v1, 17) ^ v2, v2 = ROTATE(v2, 32);                                                       \
    } while (0)

static uint64_t hash_of(const uint64_t seed[2], const uint8_t *key, size_t length) {
    uint64_t v0 = seed[0] ^ 0x736f6d6570736575ULL, v1 = seed[1] ^ 0x646f72616e646f6dULL;
    uint64_t v2 = seed[0] ^ 0x6c7967656e657261ULL, v3 = seed[1] ^ 0x7465646279746573ULL;
    uint64_t word, last = (uint64_t)length << 56;
    size_t at = 0;
    for (; at + 8 <= length; at += 8) {
        memcpy(&word, key + at, 8);
        v3 ^= word;
        ROUND;
        v0 ^= word;
    }
    for (size_t byte = 0; at + byte < length; byte++) last |= (uint64_t)key[at + byte] << (8 * byte);
    v3 ^= last;
    ROUND;
    v0 ^= last;
    v2 ^= 0xff;
    ROUND;
    ROUND;
    ROUND;
    return v0 ^ v1 ^ v2 ^ v3;
}

/* Runs. */

/* Raised with each change of what callers see, who ask for it before they call anything else. */
EXPORT int64_t interface_number(void) { return 2; }

EXPORT void run_free(run *it) {
    if (it == NULL) return;
    free(it->offsets), free(it->times), free(it->epochs), free(it->hashes), free(it->keys), free(it->values);
    free(it->key_lengths), free(it->value_lengths), free(it->others), free(it->data), free(it);
}

EXPORT run *run_new(int64_t room, uint64_t size) {
    run *it = calloc(1, sizeof *it);
    if (it == NULL) return NULL;
    it->room = room, it->size = size;
    it->offsets = malloc(room * sizeof *it->offsets), it->times = malloc(room * sizeof *it->times);
    it->epochs = malloc(room * sizeof *it->epochs), it->hashes = malloc(room * sizeof *it->hashes);
    it->keys = malloc(room * sizeof *it->keys), it->values = malloc(room * sizeof *it->values);
    it->key_lengths = malloc(room * sizeof *it->key_lengths);
    it->value_lengths = malloc(room * sizeof *it->value_lengths);
    it->others = malloc(room * sizeof *it->others);
    it->data = malloc(size);
    if (it->offsets && it->times && it->epochs && it->hashes && it->keys && it->values && it->key_lengths &&
        it->value_lengths && it->others && it->data)
        return it;
    run_free(it);
    return NULL;
}

/* One more record; 0 where there is no memory for it. */
static int put(run *it, const uint64_t seed[2], int64_t offset, int64_t time, int32_t epoch, const uint8_t *key,
               int32_t key_length, const uint8_t *value, int32_t value_length) {
    uint64_t key_bytes = key == NULL ? 0 : key_length, value_bytes = value == NULL ? 0 : value_length;
    uint64_t end = it->used + key_bytes + value_bytes;
    if (end > it->size) {
        uint8_t *more = realloc(it->data, end * 2);
        if (more == NULL) return 0;
        it->data = more, it->size = end * 2;
    }
    int64_t i = it->count++;
    it->offsets[i] = offset, it->times[i] = time, it->epochs[i] = epoch;
    if (i && time < it->times[i - 1]) it->in_time_order = 0;
    if (key != NULL && key_length > 1 && key[1] > 1) it->others[it->others_count++] = (int32_t)i;
    it->keys[i] = it->used, it->key_lengths[i] = key == NULL ? -1 : key_length;
    if (key_bytes) memcpy(it->data + it->used, key, key_bytes);
    it->hashes[i] = hash_of(seed, it->data + it->used, key_bytes);
    it->used += key_bytes;
    it->values[i] = it->used, it->value_lengths[i] = value == NULL ? -1 : value_length;
    if (value_bytes) memcpy(it->data + it->used, value, value_bytes);
    it->used += value_bytes;
    return 1;
}

/* Nothing is in it any more. What a few records of many MB took is given back: they are rare. */
static void clear(run *it) {
    it->count = 0, it->used = 0, it->others_count = 0;
    if (it->size <= 4 * FULL) return;
    uint8_t *less = realloc(it->data, FULL);
    if (less != NULL) it->data = less, it->size = FULL;
}

/* Readers. */

EXPORT void reader_free(reader *it) {
    if (it == NULL) return;
    while (it->next < it->count) it->of.message_destroy(it->messages[it->next++]);
    for (int32_t partition = 0; partition < it->partitions; partition++) run_free(it->last[partition]);
    free(it->messages), free(it->last), free(it);
}

EXPORT reader *reader_new(const client *of, void *queue, int64_t size, int64_t repeated, uint64_t seed0,
                          uint64_t seed1) {
    reader *it = calloc(1, sizeof *it);
    if (it == NULL) return NULL;
    it->of = *of, it->queue = queue, it->size = size, it->repeated = repeated;
    it->seed[0] = seed0, it->seed[1] = seed1;
    it->messages = malloc(size * sizeof *it->messages);
    if (it->messages != NULL) return it;
    reader_free(it);
    return NULL;
}

static int copy(const reader *it, run *out, const run *from, int64_t first) {
    for (int64_t i = first; i < from->count; i++)
        if (!put(out, it->seed, from->offsets[i], from->times[i], from->epochs[i],
                 from->key_lengths[i] < 0 ? NULL : from->data + from->keys[i], from->key_lengths[i],
                 from->value_lengths[i] < 0 ? NULL : from->data + from->values[i], from->value_lengths[i]))
            return 0;
    return 1;
}

/* The run of a partition begins with the last records of the one before. */
static int begin(reader *it, run *out, int32_t partition) {
    out->partition = partition;
    if (partition < 0 || partition >= it->partitions || it->last[partition] == NULL) return 1;
    if (!copy(it, out, it->last[partition], 0)) return 0;
    out->repeated = out->count;
    return 1;
}

static int end(reader *it, run *out) {
    int32_t partition = out->partition;
    if (partition < 0) return 1;
    if (partition >= it->partitions) {
        run **last = realloc(it->last, ((int64_t)partition + 1) * sizeof *last);
        if (last == NULL) return 0;
        it->last = last;
        while (it->partitions <= partition) last[it->partitions++] = NULL;
    }
    run *last = it->last[partition];
    if (last == NULL && (last = it->last[partition] = run_new(it->repeated, 1024)) == NULL) return 0;
    clear(last);
    return copy(it, last, out, out->count < it->repeated ? 0 : out->count - it->repeated);
}

/* The next message, which stays the reader's; NULL where none comes for `timeout_ms`. */
static message *peek(reader *it, int timeout_ms) {
    if (it->next < it->count) return it->messages[it->next];
    it->next = 0, it->count = it->of.consume_batch_queue(it->queue, 0, it->messages, it->size);
    if (it->count > 0) return it->messages[0];
    /* Of a batch it would wait until that is full. */
    it->count = (it->messages[0] = it->of.consume_queue(it->queue, timeout_ms)) != NULL;
    return it->messages[0];
}

/* What is said of no topic, as of the group, is of no partition: librdkafka has 0 there. */
static int32_t partition_of(const message *it) { return it->topic == NULL ? -1 : it->partition; }

static int take(reader *it, run *out, int timeout_ms) {
    message *found = peek(it, timeout_ms);
    if (found == NULL) return 1;
    if (out->room <= it->repeated) return 0;
    if (!begin(it, out, partition_of(found))) return 0;
    do {
        if (found->err) {
            out->error = found->err, out->error_offset = found->offset;
        } else {
            int type;
            int64_t time = it->of.message_timestamp(found, &type);
            if (!put(out, it->seed, found->offset, time, it->of.message_leader_epoch(found), found->key,
                     (int32_t)found->key_len, found->payload, (int32_t)found->len))
                return 0;
        }
        it->of.message_destroy(found), it->next++;
        if (out->error || out->count == out->room || out->used >= FULL) break;
        found = peek(it, 0);
    } while (found != NULL && partition_of(found) == out->partition);
    return end(it, out);
}

/* The next records, all of one partition: first `repeated` ones that the run before it ended with. With `error` what
 * librdkafka says of the partition, which comes behind them. None, and no partition, after `timeout_ms`. */
EXPORT void reader_next(reader *it, run *out, int timeout_ms) {
    clear(out);
    out->repeated = 0, out->error = 0, out->in_time_order = 1, out->partition = -1;
    out->has_failed = !take(it, out, timeout_ms);
}

/* Numbers of positions by key. */

typedef struct {
    uint64_t hash;
    uint64_t key; /* where it begins */
    int32_t length, number;
} entry;

enum { FREE = -1, GONE = -2 };

typedef struct {
    uint64_t seed[2];
    entry *entries;
    uint64_t size, taken, live; /* `size` is a power of two, `taken` are those that are not free */
    uint8_t *data;
    uint64_t used, room;
    uint8_t *touched; /* by number: whether it was told since `index_untouch` */
    int64_t numbers;
} key_index;

EXPORT void index_free(key_index *it) {
    if (it == NULL) return;
    free(it->entries), free(it->data), free(it->touched), free(it);
}

EXPORT key_index *index_new(uint64_t seed0, uint64_t seed1) {
    key_index *it = calloc(1, sizeof *it);
    if (it == NULL) return NULL;
    it->seed[0] = seed0, it->seed[1] = seed1;
    return it;
}

static entry *find(const key_index *it, uint64_t hash, const uint8_t *key, int32_t length) {
    if (!it->size) return NULL;
    for (uint64_t at = hash & (it->size - 1);; at = (at + 1) & (it->size - 1)) {
        entry *found = &it->entries[at];
        if (found->number == FREE) return NULL;
        if (found->hash == hash && found->number >= 0 && found->length == length &&
            memcmp(it->data + found->key, key, length) == 0)
            return found;
    }
}

static int grow(key_index *it) {
    uint64_t size = 64;
    while (size < it->live * 4) size *= 2;
    entry *entries = malloc(size * sizeof *entries);
    uint64_t room = 0, used = 0;
    for (uint64_t at = 0; at < it->size; at++)
        if (it->entries[at].number >= 0) room += it->entries[at].length;
    uint8_t *data = malloc(room * 2 + 4096);
    if (entries == NULL || data == NULL) {
        free(entries), free(data);
        return 0;
    }
    for (uint64_t at = 0; at < size; at++) entries[at].number = FREE;
    for (uint64_t at = 0; at < it->size; at++) {
        entry found = it->entries[at];
        if (found.number < 0) continue;
        memcpy(data + used, it->data + found.key, found.length);
        found.key = used, used += found.length;
        uint64_t to = found.hash & (size - 1);
        while (entries[to].number != FREE) to = (to + 1) & (size - 1);
        entries[to] = found;
    }
    free(it->entries), free(it->data);
    it->entries = entries, it->size = size, it->taken = it->live;
    it->data = data, it->used = used, it->room = room * 2 + 4096;
    return 1;
}

static int add(key_index *it, uint64_t hash, const uint8_t *key, int32_t length, int32_t number) {
    if ((it->taken + 1) * 3 > it->size * 2 && !grow(it)) return 0;
    if (it->used + length > it->room) {
        uint64_t room = (it->used + length) * 2;
        uint8_t *data = realloc(it->data, room);
        if (data == NULL) return 0;
        it->data = data, it->room = room;
    }
    if (number >= it->numbers) {
        int64_t numbers = (int64_t)number * 2 + 64;
        uint8_t *touched = realloc(it->touched, numbers);
        if (touched == NULL) return 0;
        it->touched = touched, it->numbers = numbers;
    }
    it->touched[number] = 0; /* it may have been another key's */
    uint64_t at = hash & (it->size - 1);
    while (it->entries[at].number != FREE) at = (at + 1) & (it->size - 1);
    memcpy(it->data + it->used, key, length);
    it->entries[at] = (entry){hash, it->used, length, number};
    it->used += length, it->taken++, it->live++;
    return 1;
}

/* Number a key that has none; 0 where there is no memory for it. */
EXPORT int index_add(key_index *it, const uint8_t *key, int32_t length, int32_t number) {
    return add(it, hash_of(it->seed, key, length), key, length, number);
}

EXPORT void index_remove(key_index *it, const uint8_t *key, int32_t length) {
    entry *found = find(it, hash_of(it->seed, key, length), key, length);
    if (found == NULL) return;
    found->number = GONE, it->live--;
}

/* From now on a number that is touched is told anew. */
EXPORT void index_untouch(key_index *it) { if (it->numbers) memset(it->touched, 0, it->numbers); }

/* Values. */

enum { SHORT = 24, LONG = 42 };

/* agent.core.wire.offset_commit_fastpath.has_fixed_layout */
static int has_fixed_layout(const uint8_t *value, int32_t length) {
    if (length == LONG)
        return value[0] == 0 && value[1] == 4 && value[14] == 1 && value[23] == 1 && value[24] == 0 && value[25] == 16;
    if (length != SHORT || value[0] != 0) return 0;
    if (value[1] == 3) return value[14] == 0 && value[15] == 0;
    return value[1] == 4 && value[14] == 1 && value[23] == 0;
}

static int is_plain(const run *of, int64_t at) {
    int32_t length = of->value_lengths[at];
    return of->key_lengths[at] >= 0 && length >= 0 && has_fixed_layout(of->data + of->values[at], length);
}

/* Number the keys of plain commits that have no number, from record `start` on, up to the first that is something
 * else: with `numbers`, in their order. How many they are, and in `rows` which records; -1 without memory. */
EXPORT int64_t index_number_new(key_index *it, const run *of, int64_t start, int64_t stop, const int32_t *numbers,
                                int32_t *rows) {
    int64_t count = 0;
    for (int64_t row = start; row < stop && is_plain(of, row); row++) {
        const uint8_t *key = of->data + of->keys[row];
        int32_t length = of->key_lengths[row];
        if (find(it, of->hashes[row], key, length) != NULL) continue;
        if (!add(it, of->hashes[row], key, length, numbers[count])) return -1;
        rows[count++] = (int32_t)row;
    }
    return count;
}

/* Replace values of known positions, from record `start` on, up to the first that is no such commit: how many there
 * are. `numbers` gets theirs, and `first` those that were not told yet, in the order they came: `*count` of them. */
EXPORT int64_t index_put_known(key_index *it, const run *of, int64_t start, int64_t stop, uint8_t *block,
                               int64_t *counts, int32_t *numbers, int32_t *first, int64_t *count) {
    int64_t at = start, told = 0;
    for (; at < stop; at++) {
        if (!is_plain(of, at)) break;
        const entry *found = find(it, of->hashes[at], of->data + of->keys[at], of->key_lengths[at]);
        if (found == NULL) break;
        int32_t number = found->number, length = of->value_lengths[at];
        uint8_t *place = block + (int64_t)number * LONG;
        memcpy(place, of->data + of->values[at], length);
        if (length < LONG) memset(place + length, 0, LONG - length);
        counts[number]++;
        numbers[at - start] = number;
        if (!it->touched[number]) it->touched[number] = 1, first[told++] = number;
    }
    *count = told;
    return at - start;
}
