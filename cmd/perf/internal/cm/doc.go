// Package cm meets the peer by rdma_cm, as perftest does with -R and -z.
//
// The client first opens one connection for the exchange itself: each message
// that would go over TCP is one send there. Then both ends meet, and the client
// opens one more connection to the same port for each queue pair of the test; the
// private data of all of them is empty. A stock server listens for those only
// after the meeting, so a client has to try more than once. With -z there is the
// connection for the exchange alone.
//
// Two rdmaperf put private data into each request, by which a server distinguishes its own client from others:
//
//	 0  "pverbs1\0"
//	 8  'x' exchange, 'q' queue pair
//	 9  token of 8 bytes, the client's choice
//	17  number of the queue pair, u32 big endian
//
// A refusal with the private data "busy" is to a client that comes while another
// one is served; "no" is to one whose address leads to a device that the server
// does not want.
package cm
