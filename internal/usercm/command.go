package usercm

import (
	"fmt"
	"syscall"
)

// Command is the number of a command. C: RDMA_USER_CM_CMD_*.
type Command uint32

// Commands that exist since Linux 3.12, and WriteCMEvent.
const (
	CmdCreateID     Command = 0
	CmdDestroyID    Command = 1
	CmdResolveRoute Command = 4
	CmdQueryRoute   Command = 5
	CmdConnect      Command = 6
	CmdListen       Command = 7
	CmdAccept       Command = 8
	CmdReject       Command = 9
	CmdDisconnect   Command = 10
	CmdInitQPAttr   Command = 11
	CmdGetEvent     Command = 12
	CmdSetOption    Command = 14
	CmdNotify       Command = 15
	CmdLeaveMcast   Command = 17
	CmdMigrateID    Command = 18
	CmdQuery        Command = 19
	CmdBind         Command = 20
	CmdResolveAddr  Command = 21
	CmdJoinMcast    Command = 22
	CmdWriteCMEvent Command = 24
)

var commandNames = map[Command]string{
	CmdCreateID: "CREATE_ID", CmdDestroyID: "DESTROY_ID", CmdResolveRoute: "RESOLVE_ROUTE",
	CmdQueryRoute: "QUERY_ROUTE", CmdConnect: "CONNECT", CmdListen: "LISTEN", CmdAccept: "ACCEPT",
	CmdReject: "REJECT", CmdDisconnect: "DISCONNECT", CmdInitQPAttr: "INIT_QP_ATTR", CmdGetEvent: "GET_EVENT",
	CmdSetOption: "SET_OPTION", CmdNotify: "NOTIFY", CmdLeaveMcast: "LEAVE_MCAST", CmdMigrateID: "MIGRATE_ID",
	CmdQuery: "QUERY", CmdBind: "BIND", CmdResolveAddr: "RESOLVE_ADDR", CmdJoinMcast: "JOIN_MCAST",
	CmdWriteCMEvent: "WRITE_CM_EVENT",
}

func (c Command) String() string {
	if s, ok := commandNames[c]; ok {
		return s
	}
	return fmt.Sprintf("Command(%d)", uint32(c))
}

// ReplyError reports a reply that no kernel sends. It wraps EPROTO.
type ReplyError struct {
	Command   Command
	What, Got string
	Want      string
}

func (e *ReplyError) Error() string {
	return fmt.Sprintf("rdma_cm's reply to %v: %s is %s, want %s", e.Command, e.What, e.Got, e.Want)
}

// Unwrap returns EPROTO.
func (e *ReplyError) Unwrap() error { return syscall.EPROTO }

// Writer is an open file of rdma_cm. Write writes a command, which has the address of resp, and returns how many bytes
// were taken.
type Writer interface {
	Write(command, resp []byte) (int, error)
}

// write writes a command. The kernel takes all of it, or returns an error.
func write(w Writer, c Command, message, resp []byte) error {
	for {
		n, err := w.Write(message, resp)
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil && n != len(message):
			return &ReplyError{c, "the length taken", fmt.Sprint(n), fmt.Sprint(len(message))}
		}
		return err
	}
}
