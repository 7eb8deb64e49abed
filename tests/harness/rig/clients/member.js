// One member of a consumer group, by kafkajs, in a process of its own: node member.js '{"group": …}'.
// It takes commands as JSON lines on standard input and says what happens to it as JSON lines on standard output,
// as client.py does.
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')
const readline = require('readline')

const task = JSON.parse(process.argv[2])
const say = what => console.log(JSON.stringify({ t: Date.now(), what }))
const sleep = seconds => new Promise(done => setTimeout(done, seconds * 1000))
const stalls = []

const consumer = new Kafka({
  clientId: task.client_id,
  brokers: [task.bootstrap],
  logLevel: logLevel.ERROR,
  logCreator: () => ({ namespace, log }) => console.error(namespace, log.message),
}).consumer({
  groupId: task.group,
  partitionAssigners: [PartitionAssigners.roundRobin],
  sessionTimeout: task.session_ms,
  heartbeatInterval: task.heartbeat_ms,
  rebalanceTimeout: task.rebalance_ms,
})

const eachMessage = async () => {
  if (stalls.length) {
    say('stalls')
    await sleep(stalls.shift())
    say('stalled')
  } else if (task.work_s) {
    await sleep(task.work_s)
  }
}

const lines = readline.createInterface({ input: process.stdin })
lines.on('line', async line => {
  const told = JSON.parse(line)
  if (told.do === 'stall') stalls.push(told.seconds)
  if (told.do === 'close') {
    say('close')
    await consumer.disconnect()
    say('closed')
    process.exit(0)
  }
})
lines.on('close', () => process.exit(3)) // whoever started us is gone

const run = async () => {
  await consumer.connect()
  await consumer.subscribe({ topics: task.topics, fromBeginning: true })
  await consumer.run({ autoCommitInterval: task.commit_ms, eachMessage })
}
run()
