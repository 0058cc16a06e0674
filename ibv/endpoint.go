package ibv

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Endpoint is the address of a queue pair that its peer needs to connect. It is a plain value: send it to the peer as
// text, JSON or bytes. Later releases can read all three.
type Endpoint struct {
	Type            QPType
	QPN             uint32 // 24 bits
	PSN             uint32 // first packet sequence number that this side sends, 24 bits
	LID             uint16 // InfiniBand; 0 on RoCE
	GID             GID    // RoCE; on InfiniBand only across subnets
	MTU             MTU    // of the port; 0 if not known
	QKey            uint32 // UD
	MaxDestRdAtomic uint8  // reads and atomics that this side can answer at the same time; RC
	MaxRdAtomic     uint8  // reads and atomics that this side can have outstanding; RC

	// GIDType is the version of RoCE of the GID, GIDTypeRoCEv1 or GIDTypeRoCEv2. It is 0 on InfiniBand, and if it is
	// not known, as from peers with an older release.
	GIDType GIDType
}

// EndpointError reports an invalid Endpoint, or input that does not decode to one. It unwraps
// to EINVAL.
type EndpointError struct {
	Field  string // as in the text form: "qpn"; empty for the input as a whole
	Got    string // shortened
	Reason string
}

func (e *EndpointError) Error() string {
	s := "endpoint"
	if e.Field != "" {
		s += ": " + e.Field
	}
	if e.Got != "" {
		s += " " + e.Got
	}
	return s + ": " + e.Reason
}

// Unwrap returns EINVAL.
func (e *EndpointError) Unwrap() error { return errInvalid }

// max24 is the largest QP number and the largest PSN.
const max24 = 1<<24 - 1

// Validate checks that a peer could connect to e: the type is known, the numbers are in range,
// and there is an address. It returns every violation, joined; each is an *EndpointError.
func (e Endpoint) Validate() error {
	errs := e.check()
	if e.Type == RawPacket {
		return errors.Join(errs...)
	}
	if e.QPN == 0 {
		errs = append(errs, &EndpointError{"qpn", "0", "reserved for the subnet manager"})
	}
	if e.LID == 0 && e.GID.IsZero() {
		errs = append(errs, &EndpointError{"gid", "::", "there is neither a GID nor a LID"})
	}
	return errors.Join(errs...)
}

// check is the part of Validate that also holds for every encoded endpoint.
func (e Endpoint) check() []error {
	var errs []error
	if e.Type >= QPType(len(qpTypeNames)) || qpTypeNames[e.Type] == "" {
		errs = append(errs, &EndpointError{"type", strconv.FormatUint(uint64(e.Type), 10), "unknown"})
	}
	if e.QPN > max24 {
		errs = append(errs, &EndpointError{"qpn", fmt.Sprintf("%#x", e.QPN), "it has 24 bits, at most 0xffffff"})
	}
	if e.PSN > max24 {
		errs = append(errs, &EndpointError{"psn", fmt.Sprintf("%#x", e.PSN), "it has 24 bits, at most 0xffffff"})
	}
	if e.MTU != 0 && e.MTU.Bytes() == 0 {
		errs = append(errs, &EndpointError{"mtu", strconv.FormatUint(uint64(e.MTU), 10),
			"not one of MTU256 to MTU4096"})
	}
	switch {
	case e.GIDType > GIDTypeRoCEv2:
		errs = append(errs, &EndpointError{"gid_type", strconv.FormatUint(uint64(e.GIDType), 10), "unknown"})
	case e.GIDType != 0 && e.LID != 0:
		errs = append(errs, &EndpointError{"lid", strconv.Itoa(int(e.LID)), "there is none with a GID of RoCE"})
	}
	return errs
}

// roceLID, with a type of GIDs in its last bits, is in the place of the LID on RoCE. Older releases, whose readers
// accept no other field, ignore it there: Linux uses no LID on Ethernet. It is a multicast LID, so no port has it.
const roceLID = 0xfff0

// codedLID returns what the text and the binary form have for the LID.
func (e *Endpoint) codedLID() uint16 {
	if e.GIDType == 0 {
		return e.LID
	}
	return roceLID | uint16(e.GIDType)
}

func (e *Endpoint) setCodedLID(n uint16) {
	e.LID, e.GIDType = n, 0
	if t := GIDType(n &^ roceLID); n&roceLID == roceLID && t >= GIDTypeRoCEv1 && t <= GIDTypeRoCEv2 {
		e.LID, e.GIDType = 0, t
	}
}

// String returns the text form.
func (e Endpoint) String() string {
	mtu := strconv.Itoa(e.MTU.Bytes())
	if e.MTU != 0 && mtu == "0" {
		mtu = e.MTU.String()
	}
	return fmt.Sprintf("%s,type=%v,qpn=%#06x,psn=%#06x,lid=%d,gid=%v,mtu=%s,qkey=%#x,dest_rd_atomic=%d,rd_atomic=%d",
		endpointText, e.Type, e.QPN, e.PSN, e.codedLID(), e.GID, mtu, e.QKey, e.MaxDestRdAtomic, e.MaxRdAtomic)
}

const (
	endpointText   = "pvep1" // start of the text form, with its version
	endpointMaxLen = 512     // of the text form, as read
)

// MarshalText returns one line without spaces, as in
//
//	pvep1,type=RC,qpn=0x000011,psn=0x03a51c,lid=0,gid=fe80::1,mtu=1024,qkey=0x0,dest_rd_atomic=16,rd_atomic=16
//
// On RoCE, where there is no LID, its field has the GIDType: 65521 is RoCE v1, 65522 is v2.
func (e Endpoint) MarshalText() ([]byte, error) {
	if err := errors.Join(e.check()...); err != nil {
		return nil, err
	}
	return []byte(e.String()), nil
}

// UnmarshalText reads what MarshalText wrote. The fields may come in any order, each once;
// type, qpn and psn are required. Any violation is an *EndpointError and leaves e unchanged.
func (e *Endpoint) UnmarshalText(text []byte) error {
	if len(text) > endpointMaxLen {
		return &EndpointError{"", "", fmt.Sprintf("%d bytes of text, at most %d", len(text), endpointMaxLen)}
	}
	parts := strings.Split(strings.TrimSpace(string(text)), ",")
	if parts[0] != endpointText {
		return &EndpointError{"", shorten(parts[0]), "text must start with " + endpointText + ","}
	}
	var v Endpoint
	seen := make(map[string]bool)
	for _, p := range parts[1:] {
		key, val, ok := strings.Cut(p, "=")
		if !ok {
			return &EndpointError{"", shorten(p), "want key=value"}
		}
		if seen[key] {
			return &EndpointError{shorten(key), "", "given twice"}
		}
		seen[key] = true
		if err := v.setField(key, val); err != nil {
			return err
		}
	}
	for _, key := range []string{"type", "qpn", "psn"} {
		if !seen[key] {
			return &EndpointError{key, "", "missing"}
		}
	}
	*e = v
	return nil
}

func (e *Endpoint) setField(key, val string) error {
	number := func(most uint64) (uint64, error) {
		n, err := strconv.ParseUint(val, 0, 64)
		if err != nil {
			return 0, &EndpointError{key, shorten(val), "not a number"}
		}
		if n > most {
			return 0, &EndpointError{key, shorten(val), fmt.Sprintf("at most %#x", most)}
		}
		return n, nil
	}
	var n uint64
	var err error
	switch key {
	case "type":
		e.Type, err = parseQPType(val)
	case "qpn":
		n, err = number(max24)
		e.QPN = uint32(n)
	case "psn":
		n, err = number(max24)
		e.PSN = uint32(n)
	case "lid":
		n, err = number(math.MaxUint16)
		e.setCodedLID(uint16(n))
	case "gid":
		if e.GID, err = ParseGID(val); err != nil {
			err = &EndpointError{key, shorten(val), "not a GID"}
		}
	case "mtu":
		if n, err = number(4096); err == nil {
			e.MTU, err = parseMTU(int(n))
		}
	case "qkey":
		n, err = number(math.MaxUint32)
		e.QKey = uint32(n)
	case "dest_rd_atomic":
		n, err = number(math.MaxUint8)
		e.MaxDestRdAtomic = uint8(n)
	case "rd_atomic":
		n, err = number(math.MaxUint8)
		e.MaxRdAtomic = uint8(n)
	default:
		err = &EndpointError{shorten(key), "", "unknown field"}
	}
	return err
}

func parseQPType(s string) (QPType, error) {
	for t, name := range qpTypeNames {
		if name != "" && name == s {
			return QPType(t), nil
		}
	}
	return 0, &EndpointError{"type", shorten(s), "unknown"}
}

// parseMTU reads an MTU in bytes; 0 means that it is not known.
func parseMTU(n int) (MTU, error) {
	if n == 0 {
		return 0, nil
	}
	if m, ok := MTUFromBytes(n); ok && m.Bytes() == n {
		return m, nil
	}
	return 0, &EndpointError{"mtu", strconv.Itoa(n), "not one of 256, 512, 1024, 2048, 4096"}
}

// shorten quotes untrusted input, cut to a length that fits in a message.
func shorten(s string) string {
	if len(s) > 24 {
		return strconv.Quote(s[:24]) + "…"
	}
	return strconv.Quote(s)
}

// The binary form, 38 bytes, numbers in network order: 'P' 'E' version type,
// qpn, psn, qkey (4 each), lid (2), mtu as enum, dest_rd_atomic, rd_atomic, a
// zero, GID (16).
const (
	endpointVersion = 1
	endpointSize    = 38
)

// MarshalBinary returns 38 bytes, the same on every machine.
func (e Endpoint) MarshalBinary() ([]byte, error) {
	if err := errors.Join(e.check()...); err != nil {
		return nil, err
	}
	b := make([]byte, 0, endpointSize)
	b = append(b, 'P', 'E', endpointVersion, byte(e.Type))
	b = binary.BigEndian.AppendUint32(b, e.QPN)
	b = binary.BigEndian.AppendUint32(b, e.PSN)
	b = binary.BigEndian.AppendUint32(b, e.QKey)
	b = binary.BigEndian.AppendUint16(b, e.codedLID())
	b = append(b, byte(e.MTU), e.MaxDestRdAtomic, e.MaxRdAtomic, 0)
	return append(b, e.GID[:]...), nil
}

// UnmarshalBinary reads what MarshalBinary wrote. Anything else is an *EndpointError and leaves
// e unchanged.
func (e *Endpoint) UnmarshalBinary(b []byte) error {
	if len(b) < 3 || b[0] != 'P' || b[1] != 'E' {
		return &EndpointError{"", "", fmt.Sprintf("%d bytes that do not start with PE", len(b))}
	}
	if b[2] != endpointVersion {
		return &EndpointError{"version", strconv.Itoa(int(b[2])), fmt.Sprintf("this release reads %d", endpointVersion)}
	}
	if len(b) != endpointSize {
		return &EndpointError{"", "", fmt.Sprintf("%d bytes, want %d", len(b), endpointSize)}
	}
	if b[21] != 0 {
		return &EndpointError{"reserved", strconv.Itoa(int(b[21])), "want 0"}
	}
	v := Endpoint{
		Type:            QPType(b[3]),
		QPN:             binary.BigEndian.Uint32(b[4:]),
		PSN:             binary.BigEndian.Uint32(b[8:]),
		QKey:            binary.BigEndian.Uint32(b[12:]),
		MTU:             MTU(b[18]),
		MaxDestRdAtomic: b[19],
		MaxRdAtomic:     b[20],
		GID:             GID(b[22:38]),
	}
	v.setCodedLID(binary.BigEndian.Uint16(b[16:]))
	if err := errors.Join(v.check()...); err != nil {
		return err
	}
	*e = v
	return nil
}

// endpointJSON is the JSON form of an Endpoint.
type endpointJSON struct {
	Version      int    `json:"version"`
	Type         string `json:"type"`
	QPN          uint32 `json:"qpn"`
	PSN          uint32 `json:"psn"`
	LID          uint16 `json:"lid"`
	GID          string `json:"gid"`
	MTUBytes     int    `json:"mtu_bytes"`
	QKey         uint32 `json:"qkey"`
	DestRdAtomic uint8  `json:"dest_rd_atomic"`
	RdAtomic     uint8  `json:"rd_atomic"`
	GIDType      uint32 `json:"gid_type,omitempty"`
}

// MarshalJSON returns an object with the keys version, type, qpn, psn, lid, gid,
// mtu_bytes, qkey, dest_rd_atomic and rd_atomic. On RoCE it also has gid_type, 1 or 2.
func (e Endpoint) MarshalJSON() ([]byte, error) {
	if err := errors.Join(e.check()...); err != nil {
		return nil, err
	}
	return json.Marshal(endpointJSON{endpointVersion, e.Type.String(), e.QPN, e.PSN, e.LID, e.GID.String(),
		e.MTU.Bytes(), e.QKey,
		e.MaxDestRdAtomic, e.MaxRdAtomic, uint32(e.GIDType)})
}

// UnmarshalJSON reads what MarshalJSON wrote. Unknown keys are ignored. Any other violation is
// an *EndpointError and leaves e unchanged.
func (e *Endpoint) UnmarshalJSON(b []byte) error {
	var j endpointJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return &EndpointError{"", "", err.Error()}
	}
	if j.Version != endpointVersion {
		return &EndpointError{"version", strconv.Itoa(j.Version), fmt.Sprintf("this release reads %d", endpointVersion)}
	}
	typ, err := parseQPType(j.Type)
	if err != nil {
		return err
	}
	mtu, err := parseMTU(j.MTUBytes)
	if err != nil {
		return err
	}
	var gid GID
	if j.GID != "" {
		if gid, err = ParseGID(j.GID); err != nil {
			return &EndpointError{"gid", shorten(j.GID), "not a GID"}
		}
	}
	v := Endpoint{typ, j.QPN, j.PSN, j.LID, gid, mtu, j.QKey, j.DestRdAtomic, j.RdAtomic, GIDType(j.GIDType)}
	if err := errors.Join(v.check()...); err != nil {
		return err
	}
	*e = v
	return nil
}
