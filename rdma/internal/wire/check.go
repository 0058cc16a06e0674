package wire

import "fmt"

// Check checks what needs no state: a frame of byteLen bytes with this header, on a connection of a kind, with leases
// or without. If the frame is to be ignored, ignore is true, and nothing in its header has a meaning. The error is an
// *Error.
func (h *Header) Check(byteLen uint32, kind ConnKind, leases bool) (ignore bool, err error) {
	switch {
	case byteLen < HeaderLen:
		return false, &Error{"frame", fmt.Sprintf("%d bytes", byteLen), fmt.Sprintf("a header of %d", HeaderLen)}
	case !h.Kind.Known(leases):
		if h.Flags&FlagIgnore != 0 {
			return true, nil
		}
		return false, &Error{"frame", h.Kind.String(), "a kind that is known, or a flag to ignore it"}
	case h.Length != byteLen-HeaderLen:
		return false, &Error{"length of " + h.Kind.String(), fmt.Sprint(h.Length), fmt.Sprint(byteLen - HeaderLen)}
	case h.Kind >= Lend && h.Length != h.Kind.payloadLen():
		return false, &Error{"length of " + h.Kind.String(), fmt.Sprint(h.Length), fmt.Sprint(h.Kind.payloadLen())}
	}
	return false, h.checkFlags(kind)
}

// checkFlags checks which flags the frame has.
func (h *Header) checkFlags(kind ConnKind) error {
	want := ""
	switch f := h.Flags; {
	case f&^FlagIgnore == 0:
		return nil
	case f&^knownFlags != 0:
		want = "known ones"
	case f&(FlagLower|FlagLowered) != 0 && h.Kind != Limit:
		want = "none about a lower limit"
	case f&FlagPacked != 0 && (h.Kind != Data || f&(FlagMore|FlagImm|FlagCancel) != 0):
		want = "PACKED in DATA only, and without MORE, IMM and CANCEL"
	case h.Kind == Data && kind == Stream:
		want = "none, in a stream"
	default:
		return nil
	}
	return &Error{"flags of " + h.Kind.String(), fmt.Sprintf("%#x", h.Flags), want}
}
