// Package pingpong has the parts of the ping-pong examples that are not verbs: options, the
// exchange of addresses over TCP, the payload, and the count of messages.
//
// The programs talk to the stock ibv_rc_pingpong, ibv_uc_pingpong,
// ibv_ud_pingpong and ibv_srq_pingpong, as server and as client. On the wire
// that means:
//
//	client                                   server, TCP port 18515
//	address, 52 bytes                  ──►
//	                                         connects its queue pair
//	                                   ◄──   address, 52 bytes
//	"done" and a zero byte, closes     ──►   closes
//	connects its queue pair
//	first message                      ══►   over RDMA, not TCP
//
// An address is text with a zero byte at the end, "LID:QPN:PSN:GID", in hex
// without prefix and of fixed width. With shared receive queues both sides send
// 256 of them in a row, those of queue pairs that are not used all zero.
package pingpong
