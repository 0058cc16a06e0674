//go:build linux

package hca

// Counter is a counter of a port.
type Counter uint8

// The counters that move; all others of sysfs stay 0. Acknowledgements are not counted.
const (
	XmitData Counter = iota // in units of 4 bytes
	XmitPackets
	RcvData
	RcvPackets
	RxWriteRequests
	RxReadRequests
	RxAtomicRequests
	RNRNak
	OutOfBuffer
	AckTimeout
	ReqCQEError
	ReqCQEFlush
	RespCQEError
	RespCQEFlush
	ReqRemoteAccess
	ReqRemoteInvalid
	RespRemoteAccess
	RespLocalLength
	Counters
)

// CounterNames are the files that show each counter.
var CounterNames = [Counters][]string{
	{"port_xmit_data"}, {"port_xmit_packets", "unicast_xmit_packets"}, {"port_rcv_data"},
	{"port_rcv_packets", "unicast_rcv_packets"},
	{"rx_write_requests"}, {"rx_read_requests"}, {"rx_atomic_requests"}, {"rnr_nak_retry_err"}, {"out_of_buffer"},
	{"local_ack_timeout_err"},
	{"req_cqe_error"}, {"req_cqe_flush_error"}, {"resp_cqe_error"}, {"resp_cqe_flush_error"},
	{"req_remote_access_errors"}, {"req_remote_invalid_request"},
	{"resp_remote_access_errors"}, {"resp_local_length_error"},
}
