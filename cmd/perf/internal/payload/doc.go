// Package payload defines the bytes of a message, and its place in memory. It moves nothing.
//
// Memory that the processor cannot reach, as a GPU's, gets another Fill and Check here; Walker stays.
package payload
