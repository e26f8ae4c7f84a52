package main

import "reflect"

// copied is a deep copy of devices: pointers, slices and interfaces are followed.
func copied(value interface{}) interface{} {
	return deep(reflect.ValueOf(value)).Interface()
}

func deep(from reflect.Value) reflect.Value {
	to := reflect.New(from.Type()).Elem()
	switch from.Kind() {
	case reflect.Ptr:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			to.Elem().Set(deep(from.Elem()))
		}
	case reflect.Interface:
		if !from.IsNil() {
			to.Set(deep(from.Elem()))
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := 0; i < from.Len(); i++ {
				to.Index(i).Set(deep(from.Index(i)))
			}
		}
	case reflect.Struct:
		to.Set(from) // unexported fields, as those of time.Time
		for i := 0; i < from.NumField(); i++ {
			if to.Field(i).CanSet() {
				to.Field(i).Set(deep(from.Field(i)))
			}
		}
	default:
		to.Set(from)
	}
	return to
}
