package wire

import "fmt"

// Error reports data that breaks the protocol. Package rdma reports it as its *ProtocolError, which has the same
// fields.
type Error struct {
	Frame string // the part of the data
	Got   string // its value
	Want  string // the values that are allowed
}

func (e *Error) Error() string { return fmt.Sprintf("%s: got %s, want %s", e.Frame, e.Got, e.Want) }

// VersionError reports a peer without a common version. Package rdma reports it as its *VersionError, which has the
// same fields.
type VersionError struct{ PeerMin, PeerMax uint8 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("versions %d to %d, want one of %d to %d", e.PeerMin, e.PeerMax, MinVersion, MaxVersion)
}
