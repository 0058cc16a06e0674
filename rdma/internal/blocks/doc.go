// Package blocks has the memory of frames and messages. It knows where each block is, how many receives are posted, and
// how many blocks were promised to peers.
//
// A Set has the blocks of a shard. A Sender takes blocks and gives them back. Blocks that it takes ahead of credits
// are bounded, because it may keep them. A Receiver posts blocks as receives, as many as were promised to the Accounts
// of its connections. Messages admits messages that are copied together as they come. A Budget bounds the memory that
// all of them and buffers share. The package knows no device: its user registers memory, posts receives, and reports
// which of them have completed.
package blocks
