package payload

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// maxFile bounds a mistake: a file of that length holds more than any message.
const maxFile = 256 << 20

// Read reads a payload from a file in perftest's format: numbers of 32 bits in hexadecimal, as 0x03020100, with commas,
// blanks or ends of lines between them. The lowest byte of each comes first.
func Read(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file of text", name)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes > %d", name, info.Size(), maxFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []byte
	separates := func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }
	for word := range strings.FieldsFuncSeq(string(text), separates) {
		n, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 32)
		if len(word) != len("0x03020100") || word[:2] != "0x" || err != nil {
			const most = 20
			if len(word) > most {
				word = word[:most] + "…"
			}
			return nil, fmt.Errorf("%s: number %d is %q, not 0x and 8 hexadecimal digits", name, len(out)/4+1, word)
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no number; the file must start like 0x03020100,0x07060504", name)
	}
	return out, nil
}
