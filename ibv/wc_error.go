package ibv

import (
	"fmt"
	"io"
	"strconv"
)

// WCError reports a work request that failed. errors.Is finds it by its status, as in
// errors.Is(err, ibv.WCRetryExcErr.Err()); "%+v" also prints advice.
type WCError struct {
	Status    WCStatus
	VendorErr uint32   // syndrome, defined by the vendor of the device
	QPN       uint32   // the local queue pair
	ID        uint64   // the ID of the work request
	Opcode    WCOpcode // as the device left it; devices need not set it on failure
	Posted    *Posted  // the work requests around it, from QP.Explain if the rings still have them; else nil
}

// Err returns nil for a successful completion, and otherwise a *WCError with the status.
func (wc *WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	return newWCError(wc)
}

func newWCError(wc *WC) error {
	return &WCError{Status: wc.Status, VendorErr: wc.VendorErr, QPN: wc.QPN, ID: wc.ID, Opcode: wc.Opcode}
}

// Error returns one line with the work request and its status. "%+v" adds what the status means
// and what to check: see Advice. If Posted is set, it adds lines with it.
func (e *WCError) Error() string {
	s := fmt.Sprintf("work request %#x of qp %#06x failed with %v", e.ID, e.QPN, e.Status)
	if e.VendorErr != 0 {
		s += fmt.Sprintf(" (vendor syndrome %#x)", e.VendorErr)
	}
	return s
}

// Advice returns what the status and the vendor syndrome mean, and what to check.
func (e *WCError) Advice() string {
	s := e.Status.Explain()
	if v := vendorText(e.Status, e.VendorErr); v != "" {
		s += " (on ConnectX: " + v + ")"
	}
	if a := e.Status.Advice(); a != "" {
		s += "; " + a
	}
	return s
}

// Format implements [fmt.Formatter]: "%+v" adds Advice to Error.
func (e *WCError) Format(f fmt.State, verb rune) {
	s := e.Error()
	switch {
	case verb == 'v' && f.Flag('+'):
		if s += ": " + e.Advice(); e.Posted != nil {
			s += "\n" + e.Posted.String()
		}
	case verb == 'q':
		s = strconv.Quote(s)
	}
	_, _ = io.WriteString(f, s)
}

// Unwrap returns Status.Err().
func (e *WCError) Unwrap() error { return e.Status.Err() }

// Err returns nil for WCSuccess. For any other status it returns an error that is the same for
// all completions with this status: a target for errors.Is. WC.Err returns more detail.
func (s WCStatus) Err() error {
	if s == WCSuccess {
		return nil
	}
	return statusError{s}
}

// statusError is the error of a status. WCStatus itself is not an error, because WCSuccess
// would be a non-nil one.
type statusError struct{ status WCStatus }

func (e statusError) Error() string { return e.status.String() }

type wcText struct{ explain, advice string }

const rdOnly = "a status of reliable datagram, which no device has"

var wcTexts = [...]wcText{
	WCSuccess: {"completed successfully", ""},
	WCLocLenErr: {"the message and the local buffers do not fit",
		"a receive was shorter than the message that arrived, or a message was longer than the port or, on UD, the " +
			"path MTU allows"},
	WCLocQPOpErr: {"the local queue pair could not execute it",
		"check opcode against QP type, number of SGEs, alignment and size of atomics, and the address handle's " +
			"port; software devices also return it for a receive that is too short"},
	WCLocEECOpErr: {rdOnly, ""},
	WCLocProtErr: {"a local buffer is not registered for this",
		"check the lkey, the bounds of the MR, and whether it was closed too early, is of another PD, or lacks " +
			"LocalWrite for a receive or a read"},
	WCWRFlushErr: {"it was not executed, because the queue pair is in the error state",
		"the first completion with another status shows the cause; if there is none, the peer disconnected or the QP " +
			"was moved to Err"},
	WCMWBindErr: {"a memory window was not bound",
		"check MWBind of the MR, the bounds, the rkey, and whether the requested access is within that of the MR"},
	WCBadRespErr: {"the peer's response was not the expected one",
		"both sides may disagree on PSN, MTU or QP type, or an old connection is still sending"},
	WCLocAccessErr: {"an incoming message violated the protection of local memory",
		"check the rkey and bounds that were sent to the peer, and the access flags of MR and QP"},
	WCRemInvReqErr: {"the responder rejected the request as invalid",
		"its receive is too short, the operation is not enabled by its QP's access flags, the message is longer than " +
			"2 GiB, or more reads and atomics are outstanding than its max_dest_rd_atomic"},
	WCRemAccessErr: {"the peer's memory does not allow it",
		"check the rkey, address and length within the peer's MR, RemoteWrite, RemoteRead or RemoteAtomic on " +
			"both its MR and its QP, and whether it closed the MR; atomics need 8-byte alignment"},
	WCRemOpErr: {"the peer could not execute it",
		"its end failed locally: check the errors of the peer's queue pair and device"},
	WCRetryExcErr: {"the peer does not respond",
		"it is gone, its QP is not in RTR or is closed, its QPN, GID or LID is wrong, the GID index is of another " +
			"RoCE version or network, a firewall drops UDP port 4791, the path MTU is too large for the network, " +
			"the network loses packets (PFC, ECN), or timeout and retry count are too small"},
	WCRNRRetryExcErr: {"the peer has no receive posted",
		"post receives before the peer sends, or give a longer min_rnr_timer, or rnr_retry 7, the default of " +
			"Connect: then a send waits without limit and without a completion"},
	WCLocRDDViolErr:  {rdOnly, ""},
	WCRemInvRDReqErr: {rdOnly, ""},
	WCRemAbortErr:    {"the peer aborted it", "check the peer's completions and events"},
	WCInvEECNErr:     {rdOnly, ""},
	WCInvEECStateErr: {rdOnly, ""},
	WCFatalErr: {"the device failed", "check the kernel's log, and AsyncEvent for EventDeviceFatal; the " +
		"device must be opened again"},
	WCRespTimeoutErr: {"no response arrived in time", "check the peer and the network in between"},
	WCGeneralErr:     {"it failed for another reason", "check the vendor syndrome and the kernel's log"},
	WCTMErr:          {"tag matching failed", "check the tag list of the SRQ and its unexpected count"},
	WCTMRndvIncomplete: {"the device could not finish the rendezvous",
		"read the data in software, as the header describes"},
}

// Explain returns the meaning of the status in a few words.
func (s WCStatus) Explain() string {
	if int(s) >= len(wcTexts) {
		return "a status that this release does not know"
	}
	return wcTexts[s].explain
}

// Advice returns what to check, or "" if there is no advice.
func (s WCStatus) Advice() string {
	if int(s) >= len(wcTexts) {
		return ""
	}
	return wcTexts[s].advice
}

// connectXSyndrome is a vendor syndrome of ConnectX together with its status.
type connectXSyndrome struct {
	status WCStatus
	vendor uint32
}

// connectXSyndromes are those on which public reports agree. NVIDIA documents only 0x93
// (MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT; rdma-core v44.0, providers/mlx5/mlx5dv.h:1070).
var connectXSyndromes = map[connectXSyndrome]string{
	{WCLocProtErr, 0x51}:   "no valid lkey for the local buffer",
	{WCRetryExcErr, 0x81}:  "no acknowledgement within timeout and retries",
	{WCRemAccessErr, 0x88}: "the responder refused rkey, bounds or access",
	{WCRemInvReqErr, 0x8a}: "the responder refused the request itself",
	{WCWRFlushErr, 0xf9}:   "flushed, an effect and not a cause",
}

// vendorText returns the meaning of a ConnectX syndrome, "" if it is unknown.
func vendorText(status WCStatus, vendor uint32) string {
	if vendor == 0x93 {
		return "page fault on memory registered on demand"
	}
	return connectXSyndromes[connectXSyndrome{status, vendor}]
}
