package postgres

import (
	"encoding/binary"
	"math"

	"github.com/jackc/pgx/v5/pgtype"
)

// param is a statement's parameter in the binary format of its type; a nil value
// is NULL. Made by hand: an array of 12,000 ids per fetch through reflection
// costs more than the query.
type param struct {
	oid   uint32
	value []byte
}

func boolParam(v bool) param {
	if v {
		return param{pgtype.BoolOID, []byte{1}}
	}
	return param{pgtype.BoolOID, []byte{0}}
}

func int8Param(v int64) param {
	return param{pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(v))}
}

func textParam(v string) param { return param{pgtype.TextOID, append([]byte{}, v...)} }

func byteaParam(v []byte) param { return param{pgtype.ByteaOID, append([]byte{}, v...)} }

// arrayHeader begins a one-dimensional array of n elements.
func arrayHeader(b []byte, n int, element uint32) []byte {
	if n == 0 {
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint32(b, 0)
		return binary.BigEndian.AppendUint32(b, element)
	}
	b = binary.BigEndian.AppendUint32(b, 1) // dimensions
	b = binary.BigEndian.AppendUint32(b, 0) // no NULL inside
	b = binary.BigEndian.AppendUint32(b, element)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, 1) // lower bound
}

// int8Array makes a bigint[] of n values.
func int8Array(n int, at func(int) int64) param {
	b := arrayHeader(make([]byte, 0, 20+12*n), n, pgtype.Int8OID)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(at(i)))
	}
	return param{pgtype.Int8ArrayOID, b}
}

func int4Array(n int, at func(int) int32) param {
	b := arrayHeader(make([]byte, 0, 20+8*n), n, pgtype.Int4OID)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, 4)
		b = binary.BigEndian.AppendUint32(b, uint32(at(i)))
	}
	return param{pgtype.Int4ArrayOID, b}
}

func boolArray(n int, at func(int) bool) param {
	b := arrayHeader(make([]byte, 0, 20+5*n), n, pgtype.BoolOID)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, 1)
		if at(i) {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return param{pgtype.BoolArrayOID, b}
}

func uuidArray(n int, at func(int) [16]byte) param {
	b := arrayHeader(make([]byte, 0, 20+20*n), n, pgtype.UUIDOID)
	for i := range n {
		id := at(i)
		b = binary.BigEndian.AppendUint32(b, 16)
		b = append(b, id[:]...)
	}
	return param{pgtype.UUIDArrayOID, b}
}

func textArray(n int, at func(int) string) param {
	b := arrayHeader(make([]byte, 0, 20+32*n), n, pgtype.TextOID)
	for i := range n {
		s := at(i)
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return param{pgtype.TextArrayOID, b}
}

func texts(list []string) param {
	return textArray(len(list), func(i int) string { return list[i] })
}

func float8Param(v float64) param {
	return param{pgtype.Float8OID, binary.BigEndian.AppendUint64(nil, math.Float64bits(v))}
}

func int4Param(v int32) param {
	return param{pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(v))}
}
