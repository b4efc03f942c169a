# SPDX-License-Identifier: MIT
# How every part of the house is built.

# Flags that hold for all targets.
macro(outrider_flags)
    set(CMAKE_C_STANDARD 17)
    set(CMAKE_C_STANDARD_REQUIRED ON)
    set(CMAKE_C_EXTENSIONS ON)
    set(CMAKE_C_VISIBILITY_PRESET hidden)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON)
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
    add_compile_options(-Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes
        -Wmissing-prototypes -Wwrite-strings -Wundef -Wvla -Wformat=2 -fno-common)
    add_compile_definitions(_GNU_SOURCE)
    if(OUTRIDER_SANITIZE)
        add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
        add_link_options(-fsanitize=address,undefined)
    endif()
    if(OUTRIDER_TSAN)
        add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
        add_link_options(-fsanitize=thread)
    endif()
    if(OUTRIDER_FUZZ)
        add_compile_options(-fsanitize=fuzzer-no-link)
    endif()
    if(OUTRIDER_COVERAGE)
        add_compile_options(--coverage)
        add_link_options(--coverage)
    endif()
    if(OUTRIDER_FAILPOINTS)
        add_compile_definitions(OUTRIDER_FAILPOINTS)
    endif()
endmacro()

# A room of the house: headers are included as "room/file.h", which only builds
# for those that link the room, so that an arrow drawn the wrong way is an error.
function(outrider_room target room)
    set(root "${CMAKE_BINARY_DIR}/rooms/${target}")
    file(MAKE_DIRECTORY "${root}")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${root}/${room}" SYMBOLIC)
    target_include_directories(${target} PUBLIC "${root}")
endfunction()

# A module: an adapter that is loaded when a URL asks for it.
function(outrider_module name)
    cmake_parse_arguments(M "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_library(outrider_module_${name} MODULE ${M_SOURCES})
    target_link_libraries(outrider_module_${name} PRIVATE ${M_LIBRARIES})
    target_link_options(outrider_module_${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs -Wl,--gc-sections)
    if(OUTRIDER_SANITIZE OR OUTRIDER_TSAN OR OUTRIDER_FUZZ)
        # Sanitizer runtimes live in the program, not in the module.
        target_link_options(outrider_module_${name} PRIVATE -Wl,-z,undefs)
    endif()
    set_target_properties(outrider_module_${name} PROPERTIES
        PREFIX "" OUTPUT_NAME "${name}"
        LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/modules")
    install(TARGETS outrider_module_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/outrider)
endfunction()

# SQL lives in .sql files; this makes a C string of one: sql_<name> in <name>.sql.h
function(outrider_embed_sql target)
    foreach(file ${ARGN})
        get_filename_component(name "${file}" NAME_WE)
        set(out "${CMAKE_CURRENT_BINARY_DIR}/sql/${name}.sql.h")
        add_custom_command(OUTPUT "${out}"
            COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${out} -DNAME=sql_${name}
                -P ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
            DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${file}" "${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake")
        target_sources(${target} PRIVATE "${out}")
    endforeach()
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/sql")
endfunction()

# What applications link: a client and the base it needs in one library, shared
# and static, with its pkg-config file and its part of the CMake package.
function(outrider_client_library name)
    cmake_parse_arguments(CLIENT "" "TITLE;PART;IMPORTED;REQUIRES" "" ${ARGN})
    set(CLIENT_NAME ${name})
    foreach(kind SHARED STATIC)
        string(TOLOWER "outrider_client_${name}_${kind}" target)
        set(exported ${name})
        if(kind STREQUAL STATIC)
            set(exported ${name}_static)
        endif()
        add_library(${target} ${kind} $<TARGET_OBJECTS:${CLIENT_PART}> $<TARGET_OBJECTS:outrider_base>)
        set_target_properties(${target} PROPERTIES OUTPUT_NAME outrider-${name} LINKER_LANGUAGE C
            VERSION ${PROJECT_VERSION} SOVERSION 0
            EXPORT_NAME ${exported})
        target_link_libraries(${target} PUBLIC ${CLIENT_IMPORTED} PRIVATE Threads::Threads)
        target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        install(TARGETS ${target} EXPORT outrider-${name}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endforeach()
    target_link_options(outrider_client_${name}_shared PRIVATE
        "-Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/outrider.map")
    set_target_properties(outrider_client_${name}_shared PROPERTIES
        LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/outrider.map")
    configure_file("${CMAKE_SOURCE_DIR}/cmake/client.pc.in" outrider-${name}.pc @ONLY)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/outrider-${name}.pc"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(EXPORT outrider-${name} FILE outrider-${name}-targets.cmake NAMESPACE outrider::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outrider)
endfunction()
